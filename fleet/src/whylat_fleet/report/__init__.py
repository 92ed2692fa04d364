"""Reports: what was found, as text and as JSON (`whylat.fleet-report/1`)."""
