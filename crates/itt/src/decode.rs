//! Words of a record → [`Record`]. The program may have written anything over them: what makes no
//! sense is refused, and nothing here can panic.

use crate::record::{Body, Context, Identifier, Record, Scope, SyncAction};
use crate::value::{Value, ValueType};
use crate::wire::{ChunkOwner, RecordCode, RecordHead};

/// Decodes the record at the start of the words; returns it with its number of words. `None` for a
/// damaged record.
pub(crate) fn decode(owner: ChunkOwner, words: &[u64]) -> Option<(Record, usize)> {
    let (head, length, has_ticks) = RecordHead::unpack(*words.first()?)?;
    let mut fields = Fields(words.get(1..length)?);
    let time_ns = fields.word()?;
    let given_ticks = match has_ticks {
        true => Some(fields.word()?),
        false => None,
    };
    let tid = match is_definition(head.code) {
        true => u32::try_from(fields.word()?).ok()?,
        false => owner.tid,
    };
    let body = match is_definition(head.code) {
        true => decode_definition(head, &mut fields)?,
        false => value(head, &mut fields)?,
    };
    let record = Record {
        time_ns,
        pid: owner.pid,
        tid,
        given_ticks,
        body,
    };
    Some((record, length))
}

/// Returns whether the record names something.
fn is_definition(code: RecordCode) -> bool {
    code as u8 <= RecordCode::CounterContext as u8
}

/// Words of a record that are not decoded yet.
struct Fields<'a>(&'a [u64]);

impl Fields<'_> {
    /// Returns the next word; None at the end.
    fn word(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Returns the id of a definition.
    fn read_reference(&mut self) -> Option<u32> {
        u32::try_from(self.word()?).ok()
    }

    /// Reads the id of a definition; 0 means that there is none.
    fn read_optional(&mut self) -> Option<Option<u32>> {
        self.read_reference().map(|id| (id != 0).then_some(id))
    }

    /// Reads an identifier; three zeros mean that there is none.
    fn read_identifier(&mut self) -> Option<Option<Identifier>> {
        let words = [self.word()?, self.word()?, self.word()?];
        Some((words != [0; 3]).then_some(Identifier(words)))
    }

    /// Reads a text with its length; None if it is cut off.
    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.word()?).ok()?;
        let (words, rest) = self.0.split_at_checked(length.div_ceil(8))?;
        self.0 = rest;
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.truncate(length);
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads values of this type; None if they are cut off.
    fn read_values(&mut self, value_type: ValueType, count: usize) -> Option<Vec<Value>> {
        let (words, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(words.iter().map(|bits| value_type.value(*bits)).collect())
    }
}

/// Decodes a record that names something.
fn decode_definition(head: RecordHead, fields: &mut Fields) -> Option<Body> {
    let id = head.id;
    Some(match head.code {
        RecordCode::Domain => Body::Domain {
            id,
            name: fields.text()?,
        },
        RecordCode::Text => Body::Text {
            id,
            text: fields.text()?,
        },
        RecordCode::Counter => Body::Counter {
            id,
            domain: Some(fields.text()?).filter(|domain| !domain.is_empty()),
            name: fields.text()?,
            value_type: ValueType::from_number(head.detail.into()),
        },
        RecordCode::Histogram => Body::Histogram {
            id,
            domain: fields.read_reference()?,
            x_type: ValueType::from_number(fields.word()?),
            name: fields.text()?,
            y_type: ValueType::from_number(head.detail.into()),
        },
        RecordCode::Event => Body::Event {
            id,
            name: fields.text()?,
        },
        RecordCode::CounterContext => counter_context(head, fields)?,
        _ => decode_unnumbered(head, fields)?,
    })
}

/// Decodes a definition without an id.
fn decode_unnumbered(head: RecordHead, fields: &mut Fields) -> Option<Body> {
    Some(match head.code {
        RecordCode::ThreadName => Body::ThreadName {
            name: fields.text()?,
        },
        RecordCode::SyncObject => Body::SyncObject {
            address: fields.word()?,
            attribute: fields.word()? as u32,
            object_type: fields.text()?,
            name: fields.text()?,
        },
        RecordCode::SyncRenamed => Body::SyncRenamed {
            address: fields.word()?,
            name: fields.text()?,
        },
        _ => return None,
    })
}

/// Decodes the description of a counter.
fn counter_context(head: RecordHead, fields: &mut Fields) -> Option<Body> {
    let number = fields.word()?;
    let text = fields.text()?;
    Some(Body::CounterContext {
        counter: head.id,
        context_type: head.detail,
        context: match text.is_empty() {
            true => Context::Number(number),
            false => Context::Text(text),
        },
    })
}

/// Decodes a value of a counter.
fn value(head: RecordHead, fields: &mut Fields) -> Option<Body> {
    match head.code {
        RecordCode::CounterValue
        | RecordCode::CounterDelta
        | RecordCode::NamedDelta
        | RecordCode::CounterDestroyed
        | RecordCode::HistogramBatch => decode_counter(head, fields),
        RecordCode::TaskBegin
        | RecordCode::TaskEnd
        | RecordCode::TaskEndOverlapped
        | RecordCode::RegionBegin
        | RecordCode::RegionEnd => span(head, fields),
        RecordCode::FrameBegin | RecordCode::FrameEnd | RecordCode::FrameSubmitted => {
            decode_frame(head, fields)
        }
        RecordCode::Marker | RecordCode::EventStart | RecordCode::EventEnd | RecordCode::Sync => {
            decode_moment(head, fields)
        }
        RecordCode::Metadata | RecordCode::MetadataText | RecordCode::Relation => {
            decode_attached(head, fields)
        }
        RecordCode::Paused => Some(Body::Paused),
        RecordCode::Resumed => Some(Body::Resumed),
        RecordCode::Detached => Some(Body::Detached),
        RecordCode::ThreadIgnored => Some(Body::ThreadIgnored),
        _ => None,
    }
}

/// Decodes a change of a counter.
fn decode_counter(head: RecordHead, fields: &mut Fields) -> Option<Body> {
    let is_decrement = head.detail != 0;
    Some(match head.code {
        RecordCode::CounterValue => Body::CounterValue {
            counter: head.id,
            value: ValueType::from_number(head.detail.into())?.value(fields.word()?),
        },
        RecordCode::CounterDelta => Body::CounterDelta {
            counter: head.id,
            delta: fields.word()?,
            is_decrement,
        },
        RecordCode::NamedDelta => Body::NamedDelta {
            domain: head.id,
            name: fields.read_reference()?,
            delta: fields.word()?,
            is_decrement,
        },
        RecordCode::CounterDestroyed => Body::CounterDestroyed { counter: head.id },
        RecordCode::HistogramBatch => {
            let y_type = ValueType::from_number(fields.word()?)?;
            let first = fields.word()?;
            let count = usize::try_from(fields.word()?).ok()?;
            Body::HistogramBatch {
                histogram: head.id,
                first,
                y: fields.read_values(y_type, count)?,
                x: match ValueType::from_number(head.detail.into()) {
                    Some(x_type) => fields.read_values(x_type, count)?,
                    None => Vec::new(),
                },
            }
        }
        _ => return None,
    })
}

/// Decodes begin or end of a task or region.
fn span(head: RecordHead, fields: &mut Fields) -> Option<Body> {
    let domain = head.id;
    Some(match head.code {
        RecordCode::TaskBegin => Body::TaskBegin {
            domain,
            name: fields.read_optional()?,
            id: fields.read_identifier()?,
            parent: fields.read_identifier()?,
            is_overlapped: head.detail != 0,
        },
        RecordCode::TaskEnd => Body::TaskEnd { domain, id: None },
        RecordCode::TaskEndOverlapped => Body::TaskEnd {
            domain,
            id: fields.read_identifier()?,
        },
        RecordCode::RegionBegin => Body::RegionBegin {
            domain,
            name: fields.read_optional()?,
            id: fields.read_identifier()?,
            parent: fields.read_identifier()?,
        },
        RecordCode::RegionEnd => Body::RegionEnd {
            domain,
            id: fields.read_identifier()?,
        },
        _ => return None,
    })
}

/// Decodes begin or end of a frame.
fn decode_frame(head: RecordHead, fields: &mut Fields) -> Option<Body> {
    let domain = head.id;
    let id = fields.read_identifier()?;
    Some(match head.code {
        RecordCode::FrameBegin => Body::FrameBegin { domain, id },
        RecordCode::FrameEnd => Body::FrameEnd { domain, id },
        RecordCode::FrameSubmitted => Body::FrameSubmitted {
            domain,
            id,
            begin_ns: fields.word()?,
            end_ns: fields.word()?,
        },
        _ => return None,
    })
}

/// Decodes a moment, an event or an action on a lock.
fn decode_moment(head: RecordHead, fields: &mut Fields) -> Option<Body> {
    Some(match head.code {
        RecordCode::Marker => Body::Marker {
            domain: head.id,
            name: fields.read_optional()?,
            id: fields.read_identifier()?,
            scope: decode_scope(head.detail),
        },
        RecordCode::EventStart => Body::EventStart { event: head.id },
        RecordCode::EventEnd => Body::EventEnd { event: head.id },
        RecordCode::Sync => Body::Sync {
            action: sync_action(head.detail)?,
            address: fields.word()?,
        },
        _ => return None,
    })
}

/// Decodes metadata or a relation.
fn decode_attached(head: RecordHead, fields: &mut Fields) -> Option<Body> {
    let domain = head.id;
    Some(match head.code {
        RecordCode::Metadata => Body::Metadata {
            domain,
            key: fields.read_optional()?,
            id: fields.read_identifier()?,
            count: fields.word()?,
            values: fields
                .read_values(ValueType::from_number(head.detail.into())?, fields.0.len())?,
        },
        RecordCode::MetadataText => Body::MetadataText {
            domain,
            key: fields.read_optional()?,
            id: fields.read_identifier()?,
            length_bytes: fields.word()?,
            text: fields.text()?,
        },
        RecordCode::Relation => Body::Relation {
            domain,
            head: fields.read_identifier()?,
            relation: head.detail,
            tail: fields.read_identifier()?,
        },
        _ => return None,
    })
}

/// Returns the scope of this number; a track is a thread, a group of tracks a process.
fn decode_scope(number: u8) -> Scope {
    match number {
        1 => Scope::Global,
        2 => Scope::Process,
        3 => Scope::Thread,
        4 => Scope::Task,
        5 => Scope::Marker,
        _ => Scope::Unknown,
    }
}

/// Returns the action of this number; None for an unknown one.
fn sync_action(number: u8) -> Option<SyncAction> {
    let actions = [
        SyncAction::Prepare,
        SyncAction::Cancel,
        SyncAction::Acquired,
        SyncAction::Releasing,
        SyncAction::Destroyed,
    ];
    actions.into_iter().find(|action| *action as u8 == number)
}
