//! The functions that requests ran: samples of table `on_cpu_samples` that lie within the `cpu` steps of a request's
//! path. A clock takes them 99 times a second on each CPU, so that most requests have none, and a service has many.

use std::collections::HashMap;

use serde::Serialize;

use crate::units::ratio_of;
use crate::waits::{NameTable, NoName, SampledFunction};

/// Functions that are kept of one sum of samples; when twice as many have come, those with the fewest samples are left
/// out.
const KEPT_MOST: usize = 256;

/// Functions of a report.
const LISTED_MOST: usize = 20;

/// Least samples for a share: with fewer the distribution of a share is far from normal (Cochran, 1954: expected
/// counts of 5 and more).
pub const SAMPLES_LEAST: u64 = 5;

/// Standard deviations that 95 % of a normal distribution lie within.
const DEVIATIONS: f64 = 1.96;

/// Number of a function in a [`FunctionTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(u32);

/// A sample of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadSample {
    /// When.
    pub time_ns: u64,
    /// The function that ran, or called what ran.
    pub function: FunctionId,
    /// Whether the kernel's code ran.
    pub in_kernel: bool,
}

/// Names of functions by number.
#[derive(Debug, Default)]
pub struct FunctionTable {
    numbers: HashMap<SampledFunction, FunctionId>,
    functions: Vec<SampledFunction>,
    /// By process, which names what has no name, and stack.
    of_stacks: HashMap<(u32, Option<u32>), FunctionId>,
}

impl FunctionTable {
    /// Returns the function of a sample.
    pub fn of_sample(&mut self, names: &NameTable, pid: u32, stack: Option<u32>) -> FunctionId {
        if let Some(known) = self.of_stacks.get(&(pid, stack)) {
            return *known;
        }
        let function = names.sampled_function(pid, stack);
        let next = FunctionId(self.functions.len() as u32);
        let functions = &mut self.functions;
        let number = *self.numbers.entry(function).or_insert_with_key(|function| {
            functions.push(function.clone());
            next
        });
        self.of_stacks.insert((pid, stack), number);
        number
    }

    /// Returns the name of a function; `None`: it has none.
    pub fn title(&self, id: FunctionId) -> Option<String> {
        let function = self.get(id);
        function.no_name.is_none().then(|| function.name.clone())
    }

    fn get(&self, id: FunctionId) -> &SampledFunction {
        &self.functions[id.0 as usize]
    }
}

/// Samples of one function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    samples: u64,
    in_kernel: u64,
}

/// Samples by function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FunctionCounts {
    by_function: Vec<(FunctionId, Count)>,
    /// Samples of functions that were left out.
    left_out: Count,
}

impl FunctionCounts {
    /// Adds one sample to its function.
    pub fn add(&mut self, sample: &ThreadSample) {
        let count = Count {
            samples: 1,
            in_kernel: u64::from(sample.in_kernel),
        };
        self.add_count(sample.function, count);
    }

    /// Adds all samples of another.
    pub fn add_all(&mut self, other: &Self) {
        for (function, count) in &other.by_function {
            self.add_count(*function, *count);
        }
        self.left_out.samples += other.left_out.samples;
        self.left_out.in_kernel += other.left_out.in_kernel;
    }

    /// Adds samples to a function; keeps the most frequent functions if they are many.
    fn add_count(&mut self, function: FunctionId, count: Count) {
        let known = self.by_function.iter_mut().find(|it| it.0 == function);
        if let Some((_, sum)) = known {
            sum.samples += count.samples;
            sum.in_kernel += count.in_kernel;
            return;
        }
        self.by_function.push((function, count));
        if self.by_function.len() > 2 * KEPT_MOST {
            self.by_function = self.rank_functions();
            for (_, count) in self.by_function.split_off(KEPT_MOST) {
                self.left_out.samples += count.samples;
                self.left_out.in_kernel += count.in_kernel;
            }
        }
    }

    /// Returns all functions with samples.
    pub fn ids(&self) -> impl Iterator<Item = FunctionId> + '_ {
        self.by_function.iter().map(|(id, _)| *id)
    }

    /// Returns the samples of a function.
    pub fn samples_of(&self, id: FunctionId) -> u64 {
        let known = self.by_function.iter().find(|it| it.0 == id);
        known.map_or(0, |(_, count)| count.samples)
    }

    /// Returns the number of all samples.
    pub fn samples(&self) -> u64 {
        self.total().samples
    }

    /// Returns whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.by_function.is_empty()
    }

    /// Returns functions by samples, the most first.
    fn rank_functions(&self) -> Vec<(FunctionId, Count)> {
        let mut ranked = self.by_function.clone();
        ranked.sort_by_key(|(id, count)| (std::cmp::Reverse(count.samples), *id));
        ranked
    }

    /// Returns all samples, those of left-out functions too.
    fn total(&self) -> Count {
        let all = self.by_function.iter().map(|(_, count)| count);
        all.chain([&self.left_out])
            .fold(Count::default(), |sum, it| Count {
                samples: sum.samples + it.samples,
                in_kernel: sum.in_kernel + it.in_kernel,
            })
    }

    /// Returns the report of these samples.
    pub fn report(&self, table: &FunctionTable) -> FunctionShares {
        let total = self.total();
        let mut report = FunctionShares {
            samples: total.samples,
            in_kernel: total.in_kernel,
            functions: Vec::new(),
            others: self.left_out.samples,
            unnamed: Vec::new(),
        };
        for (id, count) in self.rank_functions() {
            let function = table.get(id);
            match function.no_name {
                Some(why) => report.add_unnamed(why, count.samples),
                None if report.functions.len() == LISTED_MOST => report.others += count.samples,
                None => report.functions.push(FunctionShare {
                    function: function.name.clone(),
                    source: function.source.clone(),
                    line: function.line,
                    samples: count.samples,
                    in_kernel: count.in_kernel,
                    share: (total.samples >= SAMPLES_LEAST)
                        .then(|| ShareBounds::new(count.samples, total.samples)),
                }),
            }
        }
        report
    }
}

/// Functions that ran while requests computed, by samples.
#[derive(Debug, Clone, Default, Serialize)]
pub struct FunctionShares {
    /// Samples within the time that counts as `cpu`.
    pub samples: u64,
    /// Of these, in the kernel's code.
    pub in_kernel: u64,
    /// The functions with the most samples first.
    pub functions: Vec<FunctionShare>,
    /// Samples of functions that are not listed.
    pub others: u64,
    /// Samples of functions without a name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unnamed: Vec<UnnamedSamples>,
}

/// A function that ran, or that called what ran in a library or the kernel.
#[derive(Debug, Clone, Serialize)]
pub struct FunctionShare {
    /// Its name.
    pub function: String,
    /// Its source file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The line where it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Samples of it.
    pub samples: u64,
    /// Of these, in the kernel's code.
    pub in_kernel: u64,
    /// Share of the samples; absent: they are too few.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareBounds>,
}

/// A share, and between which values it lies with a probability of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ShareBounds {
    /// Of the samples.
    pub share: f64,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
}

impl ShareBounds {
    /// Returns a share with its bounds, by Wilson's score interval (1927), which holds for few
    /// samples, too.
    pub fn new(samples: u64, all: u64) -> Self {
        let share = ratio_of(samples, all);
        let count = all as f64;
        let square = DEVIATIONS * DEVIATIONS / count;
        let middle = (share + square / 2.0) / (1.0 + square);
        let spread = (share * (1.0 - share) * square + square * square / 4.0).sqrt();
        let spread = spread / (1.0 + square);
        Self {
            share,
            low: (middle - spread).clamp(0.0, share),
            high: (middle + spread).clamp(share, 1.0),
        }
    }
}

/// Samples of functions without a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnnamedSamples {
    /// How many.
    pub samples: u64,
    /// Why they have no name.
    pub why: &'static str,
    /// How to see their names; absent: nothing helps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<&'static str>,
}

impl FunctionShares {
    /// Adds samples without a function's name, by the reason.
    fn add_unnamed(&mut self, no_name: NoName, samples: u64) {
        let why = no_name.why();
        if let Some(known) = self.unnamed.iter_mut().find(|it| it.why == why) {
            known.samples += samples;
            return;
        }
        self.unnamed.push(UnnamedSamples {
            samples,
            why,
            remedy: no_name.remedy(),
        });
    }

    /// Returns whether there are enough samples for shares.
    pub fn has_shares(&self) -> bool {
        self.samples >= SAMPLES_LEAST
    }
}

/// Functions of a service: of all requests, and of the slowest 1 %.
#[derive(Debug, Clone, Serialize)]
pub struct ServiceFunctions {
    /// Of all.
    pub all: FunctionShares,
    /// Of the slowest 1 %.
    pub slowest: FunctionShares,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a sample in user mode of this function.
    fn sample(function: u32) -> ThreadSample {
        ThreadSample {
            time_ns: 0,
            function: FunctionId(function),
            in_kernel: false,
        }
    }

    #[test]
    fn share_bounds_hold_for_none_half_and_all() {
        let all = ShareBounds::new(5, 5);
        assert_eq!((all.share, all.high), (1.0, 1.0));
        assert!((0.5..0.6).contains(&all.low), "{all:?}");
        let none = ShareBounds::new(0, 100);
        assert_eq!((none.share, none.low), (0.0, 0.0));
        assert!((0.03..0.04).contains(&none.high), "{none:?}");
        let half = ShareBounds::new(50, 100);
        assert!((0.40..0.41).contains(&half.low) && (0.59..0.60).contains(&half.high));
    }

    /// However many functions there are, the sum of samples is exact, and the frequent ones are kept.
    #[test]
    fn many_functions_use_bounded_memory() {
        let mut counts = FunctionCounts::default();
        for number in 0..10_000 {
            counts.add(&sample(number + 1));
            counts.add(&sample(0));
        }
        assert!(counts.by_function.len() <= 2 * KEPT_MOST);
        assert_eq!(counts.total().samples, 20_000);
        assert_eq!(counts.rank_functions()[0].0, FunctionId(0));
        assert_eq!(counts.rank_functions()[0].1.samples, 10_000);
    }
}
