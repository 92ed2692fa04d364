//! The terminal: keys, signals and looks come in as events, each by a thread of its own; frames go out. The terminal is
//! as it was when this ends, however it ends: by a key, a signal, an error or a panic.

use std::io::stdout;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::{Context, anyhow};
use diagnose::live::{Histories, LiveReport, REACH_NS};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{Event as Input, KeyEvent, KeyEventKind, read};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, enable_raw_mode};
use ratatui::{DefaultTerminal, Terminal};
use record::privileges::Privileges;
use record::{WatchOptions, invoking_user};
use view::top::{KeyAction, ListOrder, TopState};

use super::collect;
use super::threads::{ThreadWaits, Watcher};

/// Event that the screen waits for.
enum Event {
    Key(KeyEvent),
    Resized,
    Signal(Signal),
    Look(Box<LiveReport>, Histories),
    /// Of the process that is open.
    Waits(ThreadWaits),
    /// The watch has ended, by itself only if it failed.
    Ended(anyhow::Result<()>),
    /// The terminal is gone.
    Closed(std::io::Error),
}

/// Watches connections and draws the screen until the user or a signal ends it.
pub(super) fn run(options: &WatchOptions, order: ListOrder, colour: bool) -> anyhow::Result<()> {
    let signals = block_signals()?;
    let (events, waiting) = channel();
    let stop = Arc::new(AtomicBool::new(false));
    let collector = start_collector(options.clone(), Arc::clone(&stop), events.clone());
    // one who has no name any more changes nothing
    let user = invoking_user().ok().flatten();
    let sender = events.clone();
    let threads = Watcher::start(
        options.interval,
        Privileges::for_thread_samples(user.as_ref())?,
        move |waits| sender.send(Event::Waits(waits)).is_ok(),
    );
    // this thread and those that it starts from here on: they have keys, signals and the screen
    Privileges::none(user.as_ref())?.assume()?;
    start_signals(signals, events.clone());
    let terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    start_input(events);
    let screen = Screen {
        terminal,
        top: TopState::new(order),
        histories: None,
        threads,
        colour,
    };
    let ended = screen.run(&waiting);
    ratatui::restore();
    stop.store(true, Ordering::Relaxed);
    // it looks at that many times a second
    let _ = collector.join();
    ended
}

/// Blocks the signals that end, stop or continue the program, to receive them as events.
fn block_signals() -> anyhow::Result<SigSet> {
    let mut signals = SigSet::empty();
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGTSTP,
        Signal::SIGCONT,
    ] {
        signals.add(signal);
    }
    signals.thread_block().context("cannot receive signals")?;
    Ok(signals)
}

/// Starts the thread that watches connections and sends snapshots.
fn start_collector(
    options: WatchOptions,
    stop: Arc<AtomicBool>,
    events: Sender<Event>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let each = |live, histories: &Histories| {
            match events.send(Event::Look(Box::new(live), histories.clone())) {
                Ok(()) => ControlFlow::Continue(()),
                // the screen is there no more
                Err(_) => ControlFlow::Break(()),
            }
        };
        let run = AssertUnwindSafe(|| collect::run(&options, &stop, each));
        let ended = match catch_unwind(run) {
            Ok(result) => result.map_err(anyhow::Error::from),
            // the panic printed the cause
            Err(_) => Err(anyhow!("the watching thread ended\nhint: whylat doctor")),
        };
        let _ = events.send(Event::Ended(ended));
    })
}

/// Starts the thread that waits for signals.
fn start_signals(signals: SigSet, events: Sender<Event>) {
    std::thread::spawn(move || {
        while let Ok(signal) = signals.wait() {
            if events.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    });
}

/// Starts the thread that reads keys.
fn start_input(events: Sender<Event>) {
    std::thread::spawn(move || {
        loop {
            let event = match read() {
                Ok(Input::Key(key)) if key.kind != KeyEventKind::Release => Event::Key(key),
                Ok(Input::Resize(..)) => Event::Resized,
                Ok(_) => continue,
                Err(error) => Event::Closed(error),
            };
            let is_last = matches!(event, Event::Closed(_));
            if events.send(event).is_err() || is_last {
                return;
            }
        }
    });
}

struct Screen {
    terminal: DefaultTerminal,
    top: TopState,
    histories: Option<Histories>,
    threads: Watcher,
    colour: bool,
}

impl Screen {
    /// Handles events until the user quits.
    fn run(mut self, events: &Receiver<Event>) -> anyhow::Result<()> {
        self.draw()?;
        loop {
            let first = events.recv().context("the watching thread ended")?;
            // one frame for all that has come meanwhile
            for event in std::iter::once(first).chain(events.try_iter()) {
                if self.handle_event(event)?.is_break() {
                    return Ok(());
                }
            }
            self.threads.watch_process(self.top.process_to_sample());
            self.draw()?;
        }
    }

    /// Handles a key, a snapshot, or a new size of the terminal.
    fn handle_event(&mut self, event: Event) -> anyhow::Result<ControlFlow<()>> {
        match event {
            Event::Key(key) => match self.top.key(key) {
                KeyAction::Draw => {}
                KeyAction::Quit => return Ok(ControlFlow::Break(())),
                KeyAction::Suspend => self.suspend()?,
            },
            Event::Resized => {}
            Event::Signal(Signal::SIGTSTP) => self.suspend()?,
            Event::Signal(Signal::SIGCONT) => self.resume()?,
            Event::Signal(_) => return Ok(ControlFlow::Break(())),
            Event::Look(live, histories) => {
                self.top.update(Arc::from(live));
                self.histories = Some(histories);
            }
            Event::Waits((pid, waits)) => self.top.set_waits(pid, waits),
            Event::Ended(result) => {
                result?;
                return Ok(ControlFlow::Break(()));
            }
            Event::Closed(error) => {
                return Err(error).context("cannot read keys from this terminal");
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Draws the page on the terminal.
    fn draw(&mut self) -> anyhow::Result<()> {
        let width = self
            .terminal
            .size()
            .context("cannot ask for the size of the terminal")?
            .width;
        if let (Some(conn), Some(histories)) = (self.top.connection_with_history(), &self.histories)
        {
            let bins = view::top::history_columns(width.into());
            let until_ns = self.top.history_until_ns();
            self.top
                .set_history(histories.bins(conn, bins, REACH_NS, until_ns));
        }
        let (top, colour) = (&mut self.top, self.colour);
        self.terminal
            .draw(|frame| view::top::draw(frame, top, colour))
            .context("cannot draw on this terminal")?;
        Ok(())
    }

    /// Gives the terminal back and stops, as Ctrl-Z does; goes on when the shell says so.
    fn suspend(&mut self) -> anyhow::Result<()> {
        self.terminal
            .show_cursor()
            .context("cannot restore the terminal")?;
        ratatui::try_restore().context("cannot restore the terminal")?;
        // not to be caught: the whole process stops here
        kill(Pid::this(), Signal::SIGSTOP).context("cannot stop")?;
        self.resume()
    }

    /// Sets up the terminal again, and draws everything. A new [`Terminal`] knows nothing of what
    /// was on it, and asks nothing: an answer would come where keys are read.
    fn resume(&mut self) -> anyhow::Result<()> {
        const FAILED: &str = "cannot take the terminal";
        enable_raw_mode().context(FAILED)?;
        execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All)).context(FAILED)?;
        self.terminal = Terminal::new(CrosstermBackend::new(stdout())).context(FAILED)?;
        Ok(())
    }
}
