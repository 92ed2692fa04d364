"""`python -m whylat_fleet`."""

from whylat_fleet.cli import main

raise SystemExit(main())
