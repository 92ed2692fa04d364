//! All metrics as values, for those who want no page. The registry of prometheus-client gives its metrics as text alone, or as
//! protobuf that a compiler must be built for first. So this reads the text that it wrote: OpenMetrics 1.0.0.

/// Kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyKind {
    /// A sum that only grows.
    Counter,
    /// The last value.
    Gauge,
    /// Facts as labels, a distribution, or what is not known: no numbers of their own.
    Other,
}

/// A metric, and its values.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricFamily {
    /// Name with its unit, but without `_total`.
    pub name: String,
    /// Description.
    pub help: String,
    /// Unit; empty: none.
    pub unit: String,
    /// Kind.
    pub kind: FamilyKind,
    /// Its values.
    pub samples: Vec<MetricSample>,
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSample {
    /// Names and values of its labels.
    pub labels: Vec<(String, String)>,
    /// The value.
    pub value: SampleValue,
}

/// A value by its type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SampleValue {
    /// A whole number.
    Whole(i64),
    /// Another one.
    Real(f64),
}

/// Reads all metrics of a page.
pub(super) fn parse(page: &str) -> Vec<MetricFamily> {
    let mut families: Vec<MetricFamily> = Vec::new();
    for line in page.lines() {
        if let Some(text) = line.strip_prefix("# HELP ") {
            let (name, help) = text.split_once(' ').unwrap_or((text, ""));
            families.push(MetricFamily {
                name: name.to_owned(),
                help: help.trim_end_matches('.').to_owned(),
                unit: String::new(),
                kind: FamilyKind::Other,
                samples: Vec::new(),
            });
            continue;
        }
        let Some(family) = families.last_mut() else {
            continue;
        };
        if let Some(text) = line.strip_prefix("# TYPE ") {
            family.kind = match text.rsplit(' ').next() {
                Some("counter") => FamilyKind::Counter,
                Some("gauge") => FamilyKind::Gauge,
                _ => FamilyKind::Other,
            };
        } else if let Some(text) = line.strip_prefix("# UNIT ") {
            family.unit = text.rsplit(' ').next().unwrap_or_default().to_owned();
        } else if family.kind != FamilyKind::Other && !line.starts_with('#') {
            family.samples.extend(sample(line));
        }
    }
    families
}

/// Reads a line `NAME{LABEL="VALUE",…} VALUE`.
fn sample(line: &str) -> Option<MetricSample> {
    let (series, value) = line.rsplit_once(' ')?;
    let value = match value.parse() {
        Ok(whole) => SampleValue::Whole(whole),
        Err(_) => SampleValue::Real(value.parse().ok()?),
    };
    let labels = match series.split_once('{') {
        Some((_, labels)) => labels_of(labels.strip_suffix('}')?)?,
        None => Vec::new(),
    };
    Some(MetricSample { labels, value })
}

/// Reads `LABEL="VALUE",…`, where `\` is before quotes, line ends and itself.
fn labels_of(mut text: &str) -> Option<Vec<(String, String)>> {
    let mut labels = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = rest.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(match characters.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, other) => value.push(other),
            }
        };
        labels.push((name.to_owned(), value));
        text = rest[end + 1..].trim_start_matches(',');
    }
    Some(labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::registry::{Registry, Unit};
    use proptest::prelude::*;
    use std::sync::atomic::AtomicU64;

    proptest! {
        #[test]
        fn what_a_registry_writes_is_read_back(
            label in any::<String>(), whole in any::<u32>(), real in 0.0..1e12_f64,
        ) {
            let mut registry = Registry::with_prefix("whylat");
            let counts = Family::<Vec<(String, String)>, Counter>::default();
            let labels = vec![("application".to_owned(), label), ("stage".to_owned(), "x".to_owned())];
            counts.get_or_create(&labels).inc_by(whole.into());
            registry.register("held", "Held", counts);
            let time = Gauge::<f64, AtomicU64>::default();
            time.set(real);
            registry.register_with_unit("time", "A time, in words", Unit::Seconds, time);
            let mut page = String::new();
            text::encode(&mut page, &registry).expect("memory");
            let families = parse(&page);
            let sample = |labels, value| vec![MetricSample { labels, value }];
            let expected = [
                MetricFamily {
                    name: "whylat_held".to_owned(),
                    help: "Held".to_owned(),
                    unit: String::new(),
                    kind: FamilyKind::Counter,
                    samples: sample(labels, SampleValue::Whole(whole.into())),
                },
                MetricFamily {
                    name: "whylat_time_seconds".to_owned(),
                    help: "A time, in words".to_owned(),
                    unit: "seconds".to_owned(),
                    kind: FamilyKind::Gauge,
                    samples: sample(Vec::new(), SampleValue::Real(real)),
                },
            ];
            prop_assert_eq!(families, expected);
        }
    }
}
