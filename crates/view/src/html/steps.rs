//! The steps of messages, for a browser: those of `whylat report --message`, in the order of time, and
//! the part that ends with each. Messages have one of few lists of steps: a row has the number of its list, and
//! the times.

use std::collections::HashMap;

use diagnose::messages::breakdown::BreakdownSource;
use diagnose::messages::message::MessageRow;
use diagnose::messages::parts::{MessageEvent, MessagePart};
use diagnose::messages::report::MessageStep;
use serde::Serialize;
use table::Field;

use super::column::{CellKind, ColumnCells, DeltaBase, DerivedColumn};

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
    doc: "Error bound of the time at which the network adapter put it on the wire.",
    unit: "ns",
    null: "unknown",
};

/// Makes the description of a column of step times.
const fn time_field(name: &'static str) -> Field {
    Field {
        name,
        doc: "When a step of its list happened.",
        unit: "ns",
        null: "its list is shorter",
    }
}

const TIMES: [Field; MOST] = [
    time_field("step_0_ns"),
    time_field("step_1_ns"),
    time_field("step_2_ns"),
    time_field("step_3_ns"),
    time_field("step_4_ns"),
    time_field("step_5_ns"),
    time_field("step_6_ns"),
    time_field("step_7_ns"),
];

/// Time of the first step: the base of other times of a message.
pub const FIRST: DeltaBase = DeltaBase::Column(TIMES[0].name);

/// A step; the part that ends with it, and the index of the step that begins that part.
type StepKey = (MessageEvent, Option<(MessagePart, usize)>);

/// Header of a step.
#[derive(Debug, Clone, Serialize)]
pub struct StepHead {
    what: MessageEvent,
    text: &'static str,
    /// The part that ends with it; `None`: no part does.
    ends: Option<PartHead>,
}

/// Header of a part.
#[derive(Debug, Clone, Serialize)]
struct PartHead {
    part: MessagePart,
    name: &'static str,
    /// Index of the step that begins it.
    from: usize,
}

/// Lists of message steps, each kept once: messages with the same steps share a number.
#[derive(Debug, Default)]
pub struct StepLists {
    numbers: HashMap<Vec<StepKey>, usize>,
    heads: Vec<Vec<StepHead>>,
}

/// Times of the steps of a message.
#[derive(Debug)]
pub struct StepTimes {
    list: usize,
    /// One time for each step of its list.
    ns: [u64; MOST],
    steps: usize,
    error_ns: Option<u64>,
}

impl StepLists {
    /// Returns the lists by number.
    pub fn into_heads(self) -> Vec<Vec<StepHead>> {
        self.heads
    }

    /// Returns the times of the steps of messages.
    pub fn all(
        &mut self,
        messages: impl Iterator<Item = MessageRow>,
        breakdowns: &BreakdownSource,
    ) -> Vec<StepTimes> {
        messages
            .map(|row| self.step_times(&row, breakdowns))
            .collect()
    }

    /// Returns the times of a message's steps, and the number of the list that names them.
    fn step_times(&mut self, row: &MessageRow, breakdowns: &BreakdownSource) -> StepTimes {
        let (begin_ns, _) = row.known_ns();
        let steps = breakdowns.message_steps(row);
        let mut ns = [0; MOST];
        for (cell, step) in ns.iter_mut().zip(&steps) {
            *cell = begin_ns + step.after_ns;
        }
        StepTimes {
            list: self.number(list_steps(&steps)),
            ns,
            steps: steps.len(),
            error_ns: steps.iter().find_map(|step| step.error_ns),
        }
    }

    /// Returns the number of a list of steps; gives a new list the next number.
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

/// Returns the columns of step times, each as the difference to the one before.
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

/// Returns the index of the step that begins a part: the end of the part before.
fn list_steps(steps: &[MessageStep]) -> Vec<StepKey> {
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
