//! Panels of Grafana.

use serde_json::{Value, json};

/// Kind of a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PanelKind {
    /// Lines over time, one above another if they are parts of a sum.
    Lines {
        /// Whether they are parts.
        is_stacked: bool,
    },
    /// The last value of each query.
    Numbers,
    /// The last value of each series, largest first.
    Bars,
}

/// A panel of a dashboard.
#[derive(Debug, Clone)]
pub(crate) struct Panel {
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    pub(crate) kind: PanelKind,
    /// A unit of Grafana.
    pub(crate) unit: &'static str,
    /// Columns of 24.
    pub(crate) width: u32,
    /// Query and legend.
    pub(crate) queries: Vec<(String, &'static str)>,
    /// The dashboard that a series leads to, by this label.
    pub(crate) link: Option<(&'static str, &'static str)>,
}

impl Panel {
    /// Returns the panel at a place.
    pub(crate) fn json(&self, id: usize, (x, y): (u32, u32)) -> Value {
        json!({
            "id": id,
            "type": match self.kind {
                PanelKind::Lines { .. } => "timeseries",
                PanelKind::Numbers => "stat",
                PanelKind::Bars => "bargauge",
            },
            "title": self.title,
            "description": self.description,
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height()},
            "fieldConfig": {"defaults": self.defaults(), "overrides": []},
            "options": self.options(),
            "targets": self.targets(),
        })
    }

    /// Returns the panel's height in the dashboard's lines.
    pub(crate) fn height(&self) -> u32 {
        if self.kind == PanelKind::Numbers {
            4
        } else {
            8
        }
    }

    /// Returns unit, style and links of the panel.
    fn defaults(&self) -> Value {
        let mut defaults = json!({"unit": self.unit, "min": 0});
        if let PanelKind::Lines { is_stacked } = self.kind {
            defaults["custom"] = match is_stacked {
                true => json!({"stacking": {"mode": "normal"}, "fillOpacity": 40}),
                false => json!({"fillOpacity": 5}),
            };
        }
        if let Some((board, label)) = self.link {
            let variable = label;
            defaults["links"] = json!([{
                "title": format!("Open {board}"),
                "url": format!("/d/whylat-{board}?var-{variable}=${{__field.labels.{label}}}"),
            }]);
        }
        defaults
    }

    /// Returns the options of this kind of panel.
    fn options(&self) -> Value {
        let last = json!({"calcs": ["lastNotNull"]});
        match self.kind {
            PanelKind::Lines { .. } => json!({
                "legend": {"displayMode": "list", "placement": "bottom"},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }),
            PanelKind::Numbers => json!({"reduceOptions": last}),
            PanelKind::Bars => json!({
                "reduceOptions": last, "orientation": "horizontal", "displayMode": "basic",
            }),
        }
    }

    /// Returns the queries of the panel.
    fn targets(&self) -> Vec<Value> {
        let target = |(place, (query, legend)): (usize, &(String, &str))| {
            json!({
                "refId": char::from(b'A' + u8::try_from(place).expect("few queries")).to_string(),
                "expr": query,
                "legendFormat": legend,
                "instant": self.kind == PanelKind::Bars,
            })
        };
        self.queries.iter().enumerate().map(target).collect()
    }
}
