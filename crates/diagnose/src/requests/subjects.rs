//! Subjects of the parts of a service's requests: the few stacks, threads and services with the most of the time, in bounded
//! memory.

use super::id::ServiceId;
use super::part::{PARTS, RequestPart};
use super::trail::{RequestStep, StepSubject, UnkeptTime};
use crate::rows::top::Top;

/// Those who took most of the time of one part. An element with more than an eighth of it is never missed.
#[derive(Debug, Clone, Default)]
pub struct PartSubjects {
    /// Stacks in which threads waited, by their distinct number.
    pub stacks: Top,
    /// Threads that had the request meanwhile.
    pub threads: Top,
    /// Threads that ended the wait.
    pub wakers: Top,
    /// Services that were waited for: by the connection.
    pub services: Top,
}

/// Subjects of all parts of a service.
#[derive(Debug, Default)]
pub struct SubjectTable(Vec<Option<Box<PartSubjects>>>);

impl SubjectTable {
    /// Adds a step to the sums of its thread, waker, stack and service. `stack`: the distinct
    /// number of its stack; `service`: that of its connection.
    pub fn add(&mut self, step: &RequestStep, stack: Option<u32>, service: Option<ServiceId>) {
        if self.0.is_empty() {
            self.0.resize(PARTS, None);
        }
        let subjects = self.0[step.part as usize].get_or_insert_default();
        let ns = step.length_ns();
        if let Some(stack) = stack {
            subjects.stacks.add(stack, ns);
        }
        if let Some(thread) = step.thread {
            subjects.threads.add(thread.number(), ns);
        }
        if let Some(waker) = step.subject.waker {
            subjects.wakers.add(waker.number(), ns);
        }
        if let Some(service) = service {
            subjects.services.add(service.number(), ns);
        }
    }

    /// Adds the time of steps that were not kept.
    pub fn add_unkept(&mut self, time: &UnkeptTime) {
        let step = RequestStep {
            begin_ns: 0,
            end_ns: time.ns,
            part: time.part,
            thread: time.thread,
            subject: StepSubject::default(),
        };
        self.add(&step, None, None);
    }

    /// Returns the subjects of a part's time; `None`: it took none.
    pub fn get(&self, part: RequestPart) -> Option<&PartSubjects> {
        self.0.get(part as usize)?.as_deref()
    }
}
