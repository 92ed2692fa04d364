//! Spans and log records → messages of a bounded size, those of one program together.

use std::collections::BTreeMap;
use std::io;

use prost::Message as _;

use crate::proto::{
    LogRecord, LogsRequest, OtlpSpan, ResourceLogs, ResourceSpans, ScopeLogs, ScopeSpans,
    TracesRequest,
};
use crate::resource::{ResourceSource, scope};
use crate::signal::{Message, Signal};

/// Items of a message, at most: the default of OpenTelemetry's own batches.
const ITEMS_MOST: usize = 512;

/// Bytes of a message, about: receivers of gRPC take 4 MiB.
const BYTES_MOST: usize = 1 << 20;

/// Takes messages.
pub(crate) type Sink<'a> = dyn FnMut(Message) -> io::Result<()> + 'a;

/// An item of a batch.
pub(crate) trait BatchItem: prost::Message + Sized {
    /// Kind of data.
    const SIGNAL: Signal;

    /// Encodes a message of these items, by the name of their program.
    fn encode_all(
        items: BTreeMap<Option<String>, Vec<Self>>,
        resources: &ResourceSource,
    ) -> Vec<u8>;
}

/// Items that wait for their message.
pub(crate) struct Batch<'a, T> {
    resources: &'a ResourceSource,
    items: BTreeMap<Option<String>, Vec<T>>,
    count: usize,
    bytes: usize,
}

impl<'a, T: BatchItem> Batch<'a, T> {
    /// Makes an empty batch.
    pub(crate) fn new(resources: &'a ResourceSource) -> Self {
        Self {
            resources,
            items: BTreeMap::new(),
            count: 0,
            bytes: 0,
        }
    }

    /// Adds an item of a program. A full message goes to the sink before.
    pub(crate) fn add(
        &mut self,
        service: Option<&str>,
        item: T,
        sink: &mut Sink<'_>,
    ) -> io::Result<()> {
        let bytes = item.encoded_len();
        if self.count >= ITEMS_MOST || self.bytes + bytes > BYTES_MOST {
            self.flush(sink)?;
        }
        self.count += 1;
        self.bytes += bytes;
        let items = self.items.entry(service.map(str::to_owned)).or_default();
        items.push(item);
        Ok(())
    }

    /// Writes the batch to the sink, and empties it.
    pub(crate) fn flush(&mut self, sink: &mut Sink<'_>) -> io::Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let items = std::mem::take(&mut self.items);
        let message = Message {
            signal: T::SIGNAL,
            items: self.count as u64,
            bytes: T::encode_all(items, self.resources),
        };
        (self.count, self.bytes) = (0, 0);
        sink(message)
    }
}

impl BatchItem for OtlpSpan {
    const SIGNAL: Signal = Signal::Traces;

    fn encode_all(
        items: BTreeMap<Option<String>, Vec<Self>>,
        resources: &ResourceSource,
    ) -> Vec<u8> {
        let resource_spans = items.into_iter().map(|(service, spans)| ResourceSpans {
            resource: Some(resources.resource(service.as_deref())),
            scope_spans: vec![ScopeSpans {
                scope: Some(scope()),
                spans,
            }],
        });
        let request = TracesRequest {
            resource_spans: resource_spans.collect(),
        };
        request.encode_to_vec()
    }
}

impl BatchItem for LogRecord {
    const SIGNAL: Signal = Signal::Logs;

    fn encode_all(
        items: BTreeMap<Option<String>, Vec<Self>>,
        resources: &ResourceSource,
    ) -> Vec<u8> {
        let resource_logs = items
            .into_iter()
            .map(|(service, log_records)| ResourceLogs {
                resource: Some(resources.resource(service.as_deref())),
                scope_logs: vec![ScopeLogs {
                    scope: Some(scope()),
                    log_records,
                }],
            });
        let request = LogsRequest {
            resource_logs: resource_logs.collect(),
        };
        request.encode_to_vec()
    }
}
