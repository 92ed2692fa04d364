//! Turn-taking by datagrams: each question has one answer. A question that was repeated before its answer came is the same
//! question; without payload that shows by what its sender did meanwhile.

use super::moving_call::MovingCall;

/// Questions of a request that were asked again before their answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RepeatedQuestions {
    /// The first datagram had not been sent then.
    pub since_ns: u64,
    /// How many.
    pub count: u64,
    /// When the last of them was asked; 0: none was.
    pub last_ns: u64,
}

impl RepeatedQuestions {
    /// Starts with the first datagram.
    pub fn new(call: &MovingCall) -> Self {
        Self {
            since_ns: call.began_after_ns.min(call.begin_ns),
            ..Self::default()
        }
    }

    /// Adds one repeated question.
    pub fn add(&mut self, call: &MovingCall) {
        self.count += 1;
        self.last_ns = call.end_ns;
    }
}

/// The datagrams of the open exchange of a flow.
#[derive(Debug, Clone, Copy, Default)]
pub struct DatagramTurns {
    /// Questions, each once.
    asked: u64,
    answered: u64,
    /// So many of the next questions are repetitions.
    repeated: u64,
    /// When the last call on the flow ended.
    last_ns: u64,
}

/// Meaning of a datagram that asks, for the open exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// It begins another exchange.
    New,
    /// It is asked together with others.
    Same,
    /// It was asked before.
    Again,
    /// It is another one, and an answer came before those to others.
    Crossing,
}

impl DatagramTurns {
    /// Adds a question; returns whether it is new, repeated or belongs to the open one.
    pub fn add_question(&mut self, call: &MovingCall) -> Question {
        // The thread waited, or did something else, since the last datagram of the flow.
        let is_later = call.began_after_ns > self.last_ns;
        self.last_ns = call.end_ns;
        if self.answered >= self.asked {
            *self = Self {
                asked: 1,
                last_ns: call.end_ns,
                ..Self::default()
            };
            return Question::New;
        }
        if is_later {
            self.repeated = self.asked - self.answered;
        }
        if self.repeated > 0 {
            self.repeated -= 1;
            return Question::Again;
        }
        self.asked += 1;
        match self.answered {
            0 => Question::Same,
            _ => Question::Crossing,
        }
    }

    /// Adds an answer; returns whether more answers than questions came.
    pub fn add_answer(&mut self, call: &MovingCall) -> bool {
        self.last_ns = call.end_ns;
        self.answered += 1;
        self.answered > self.asked
    }
}
