//! What happened to messages, for a browser: the steps that `whylat report --message` names, in the order of time, and
//! the part of the way that each ends. Messages have one of few lists of steps: a row has the number of its list, and
//! the times.

use std::collections::HashMap;

use diagnose::messages::breakdown::BreakdownSource;
use diagnose::messages::message::MessageRow;
use diagnose::messages::parts::{MessageEvent, MessagePart};
use diagnose::messages::report::MessageStep;
use serde::Serialize;
use table::Field;

use super::column::{CellKind, ColumnCells, DeltaBase};
use super::pack::DerivedColumn;

/// Steps of a message, at most.
const MOST: usize = 8;

const LIST: Field = Field {
    name: "step_list",
    doc: "What happened to it: number of a list of steps.",
    unit: "",
    null: "never",
};

const ERROR: Field = Field {
    name: "on_wire_error_ns",
    doc: "How far from the time at which the network adapter put it on the wire the true one may be.",
    unit: "ns",
    null: "that is not known",
};

const fn time(name: &'static str) -> Field {
    Field {
        name,
        doc: "When a step of its list happened.",
        unit: "ns",
        null: "its list is shorter",
    }
}

const TIMES: [Field; MOST] = [
    time("step_0_ns"),
    time("step_1_ns"),
    time("step_2_ns"),
    time("step_3_ns"),
    time("step_4_ns"),
    time("step_5_ns"),
    time("step_6_ns"),
    time("step_7_ns"),
];

/// When the first step happened: what other moments of a message are near to.
pub const FIRST: DeltaBase = DeltaBase::Column(TIMES[0].name);

/// A step; the part that ends with it, and the place in the list of the step with which that begins.
type StepKey = (MessageEvent, Option<(MessagePart, usize)>);

/// What the header says of a step.
#[derive(Debug, Clone, Serialize)]
pub struct StepHead {
    what: MessageEvent,
    text: &'static str,
    /// The part of the way that ends with it; `None`: none does.
    ends: Option<PartHead>,
}

/// What the header says of a part.
#[derive(Debug, Clone, Serialize)]
struct PartHead {
    part: MessagePart,
    name: &'static str,
    /// Place in the list of the step with which it begins.
    from: usize,
}

/// All lists of steps that messages have.
#[derive(Debug, Default)]
pub struct StepLists {
    numbers: HashMap<Vec<StepKey>, usize>,
    heads: Vec<Vec<StepHead>>,
}

/// When the steps of a message happened.
#[derive(Debug)]
pub struct StepTimes {
    list: usize,
    /// As many as its list has.
    ns: [u64; MOST],
    steps: usize,
    error_ns: Option<u64>,
}

impl StepLists {
    /// The lists, by number.
    pub fn into_heads(self) -> Vec<Vec<StepHead>> {
        self.heads
    }

    /// When the steps of messages happened.
    pub fn all(
        &mut self,
        messages: impl Iterator<Item = MessageRow>,
        breakdowns: &BreakdownSource,
    ) -> Vec<StepTimes> {
        messages.map(|row| self.times(&row, breakdowns)).collect()
    }

    fn times(&mut self, row: &MessageRow, breakdowns: &BreakdownSource) -> StepTimes {
        let (begin_ns, _) = row.known_ns();
        let steps = breakdowns.steps(row);
        let mut ns = [0; MOST];
        for (cell, step) in ns.iter_mut().zip(&steps) {
            *cell = begin_ns + step.after_ns;
        }
        StepTimes {
            list: self.number(listed(&steps)),
            ns,
            steps: steps.len(),
            error_ns: steps.iter().find_map(|step| step.error_ns),
        }
    }

    fn number(&mut self, list: Vec<StepKey>) -> usize {
        if let Some(number) = self.numbers.get(&list) {
            return *number;
        }
        let number = self.heads.len();
        let head = |(what, ends): &StepKey| StepHead {
            what: *what,
            text: what.text(),
            ends: ends.map(|(part, from)| PartHead {
                part,
                name: part.name(),
                from,
            }),
        };
        self.heads.push(list.iter().map(head).collect());
        self.numbers.insert(list, number);
        number
    }
}

/// The columns of messages: times first, of which each is near to the one before.
pub fn columns(times: Vec<StepTimes>) -> impl Iterator<Item = DerivedColumn> {
    let list = times.iter().map(|it| i64::try_from(it.list).ok()).collect();
    let error = times.iter().map(|it| it.error_ns?.try_into().ok());
    let error = error.collect();
    let moment = move |step: usize| {
        let cell = |it: &StepTimes| (step < it.steps).then(|| it.ns[step].cast_signed());
        let near = match step.checked_sub(1) {
            None => DeltaBase::Previous,
            Some(before) => DeltaBase::Column(TIMES[before].name),
        };
        let cells = times.iter().map(cell).collect();
        (
            &TIMES[step],
            CellKind::Moment(near),
            ColumnCells::Whole(cells),
        )
    };
    (0..MOST).map(moment).chain([
        (&LIST, CellKind::Number, ColumnCells::Whole(list)),
        (&ERROR, CellKind::Number, ColumnCells::Whole(error)),
    ])
}

/// A part begins with the step that ended the part before, the first one with that at its begin.
fn listed(steps: &[MessageStep]) -> Vec<StepKey> {
    let mut before = None;
    let mut list = Vec::with_capacity(steps.len());
    for (place, step) in steps.iter().enumerate() {
        let ends = step.ends.map(|took| {
            let begin_ns = step.after_ns - took.ns;
            let first = || steps.iter().position(|it| it.after_ns == begin_ns);
            (took.part, before.or_else(first).unwrap_or(place))
        });
        if ends.is_some() {
            before = Some(place);
        }
        list.push((step.what, ends));
    }
    list
}
