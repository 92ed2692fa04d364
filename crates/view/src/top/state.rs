//! The state of the screen of `whylat top`. In: snapshots, keys, the size of the screen. Out: the
//! state to draw. Does no I/O.

use std::sync::Arc;

use diagnose::live::{HistoryBin, LiveConnection, LiveReport, ProcessWaits};
use diagnose::report::Process;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::order::{ListOrder, SortKey};

/// Screen that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScreenPage {
    /// All connections.
    Connections,
    /// All processes.
    Processes,
    /// All findings.
    Findings,
    /// All services with requests.
    Services,
    /// One connection by its id.
    Connection(u64),
    /// The connections of one process.
    Process(Option<Process>),
    /// One finding.
    Finding(FindingId),
    /// The help.
    Help,
}

/// Identity of a finding across snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingId {
    rule: String,
    process: Option<Process>,
    local: String,
}

/// Action of the caller after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyAction {
    /// Draw again.
    Draw,
    /// Exit.
    Quit,
    /// Suspend, as on Ctrl-Z.
    Suspend,
}

/// Waits of the threads of a process, or why they are unknown.
type Waits = (u32, Result<ProcessWaits, String>);

/// Position in a list.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    index: usize,
    /// Index of the first row on the screen.
    offset: usize,
}

/// State of the screen.
#[derive(Debug)]
pub struct TopState {
    pub(super) live: Option<Arc<LiveReport>>,
    pub(super) history: Vec<HistoryBin>,
    waits: Option<Waits>,
    pub(super) order: ListOrder,
    /// The user types the filter.
    pub(super) typing: bool,
    pub(super) paused: bool,
    pages: Vec<(ScreenPage, Cursor)>,
    /// Indices of the rows of the open list.
    pub(super) shown: Vec<usize>,
    /// Rows that fit on the screen, as of the last drawing.
    pub(super) rows: usize,
    /// Lines of the open text, as of the last drawing.
    pub(super) lines: usize,
}

impl TopState {
    /// Returns an empty screen.
    pub fn new(order: ListOrder) -> Self {
        Self {
            live: None,
            history: Vec::new(),
            waits: None,
            order,
            typing: false,
            paused: false,
            pages: vec![(ScreenPage::Connections, Cursor::default())],
            shown: Vec::new(),
            rows: 1,
            lines: 0,
        }
    }

    /// Takes a new snapshot, unless the screen is paused.
    pub fn update(&mut self, live: Arc<LiveReport>) {
        if self.paused && self.live.is_some() {
            return;
        }
        let selected = self.selected_page();
        self.live = Some(live);
        self.refresh();
        self.select(selected);
    }

    /// Returns the connection with a history on the screen.
    pub fn connection_with_history(&self) -> Option<u64> {
        match self.page() {
            ScreenPage::Connection(id) => Some(*id),
            _ => None,
        }
    }

    /// Returns the process to sample, if its waits are not recorded.
    pub fn process_to_sample(&self) -> Option<u32> {
        let live = self.live.as_ref()?;
        match self.page() {
            ScreenPage::Process(process) if live.about.detail != "waits" => process.as_ref()?.pid,
            _ => None,
        }
    }

    /// Sets the waits of the process, or why they are unknown.
    pub fn set_waits(&mut self, pid: u32, waits: Result<ProcessWaits, String>) {
        if !self.paused || self.waits_of(pid).is_none() {
            self.waits = Some((pid, waits));
        }
    }

    /// Returns the waits of a process, after it was sampled.
    pub(super) fn waits_of(&self, pid: u32) -> Option<&Result<ProcessWaits, String>> {
        let (of, waits) = self.waits.as_ref()?;
        (*of == pid).then_some(waits)
    }

    /// Returns the end of the history, `CLOCK_MONOTONIC` ns.
    pub fn history_until_ns(&self) -> u64 {
        self.live.as_ref().map_or(0, |live| live.about.now_ns)
    }

    /// Sets the history of the open connection.
    pub fn set_history(&mut self, history: Vec<HistoryBin>) {
        self.history = history;
    }

    /// Returns the open page.
    pub fn page(&self) -> &ScreenPage {
        self.pages
            .last()
            .map_or(&ScreenPage::Connections, |(page, _)| page)
    }

    /// Returns the indices of the selected row and of the first drawn row.
    pub(super) fn cursor(&self) -> (usize, usize) {
        self.pages
            .last()
            .map_or((0, 0), |(_, cursor)| (cursor.index, cursor.offset))
    }

    /// Returns the cursor of the open page.
    fn cursor_mut(&mut self) -> Option<&mut Cursor> {
        self.pages.last_mut().map(|(_, cursor)| cursor)
    }

    /// Returns the connection with this id.
    pub(super) fn connection(&self, id: u64) -> Option<&LiveConnection> {
        self.live
            .as_ref()?
            .connections
            .iter()
            .find(|it| it.id == id)
    }

    /// Returns the index of a finding, undecided ones after the others.
    pub(super) fn finding(&self, id: &FindingId) -> Option<usize> {
        let live = self.live.as_ref()?;
        (0..live.findings.len() + live.undecided.len())
            .find(|place| finding_id(live, *place).as_ref() == Some(id))
    }

    /// Computes the rows of the list again.
    fn refresh(&mut self) {
        let Some(live) = &self.live else {
            return;
        };
        self.shown = match self.page() {
            ScreenPage::Processes => self.order.processes(live),
            ScreenPage::Findings => self.order.findings(live),
            ScreenPage::Services => self.order.services(live),
            ScreenPage::Process(process) => self.order.connections(live, Some(process)),
            ScreenPage::Connections => self.order.connections(live, None),
            ScreenPage::Connection(_) | ScreenPage::Finding(_) | ScreenPage::Help => Vec::new(),
        };
        self.keep_in_sight();
    }

    /// Returns the screen that the selected row opens.
    fn selected_page(&self) -> Option<ScreenPage> {
        let live = self.live.as_ref()?;
        let place = *self.shown.get(self.cursor().0)?;
        match self.page() {
            ScreenPage::Connections | ScreenPage::Process(_) => {
                Some(ScreenPage::Connection(live.connections.get(place)?.id))
            }
            ScreenPage::Processes => Some(ScreenPage::Process(
                live.processes.get(place)?.process.clone(),
            )),
            ScreenPage::Findings => Some(ScreenPage::Finding(finding_id(live, place)?)),
            ScreenPage::Services => None,
            ScreenPage::Connection(_) | ScreenPage::Finding(_) | ScreenPage::Help => None,
        }
    }

    /// Selects the same row at its new place; the first row stays selected, as the worst one.
    fn select(&mut self, wanted: Option<ScreenPage>) {
        let (Some(wanted), Some(live)) = (wanted, &self.live) else {
            return;
        };
        if self.cursor().0 == 0 {
            return;
        }
        let is_it = |place: &usize| match &wanted {
            ScreenPage::Connection(id) => live.connections.get(*place).map(|it| it.id) == Some(*id),
            ScreenPage::Process(process) => live
                .processes
                .get(*place)
                .is_some_and(|it| it.process == *process),
            ScreenPage::Finding(id) => finding_id(live, *place).as_ref() == Some(id),
            _ => false,
        };
        if let Some(index) = self.shown.iter().position(is_it)
            && let Some(cursor) = self.cursor_mut()
        {
            cursor.index = index;
        }
        self.keep_in_sight();
    }

    /// Scrolls until the selected row is on the screen.
    fn keep_in_sight(&mut self) {
        let (rows, number) = (self.rows.max(1), self.shown.len());
        let is_list = self.is_list();
        let Some(cursor) = self.cursor_mut().filter(|_| is_list) else {
            return;
        };
        cursor.index = cursor.index.min(number.saturating_sub(1));
        cursor.offset = cursor.offset.min(cursor.index);
        cursor.offset = cursor.offset.max((cursor.index + 1).saturating_sub(rows));
        // no empty lines below while there is something above
        cursor.offset = cursor.offset.min(number.saturating_sub(rows));
    }

    /// Returns whether the open page is a list of rows.
    fn is_list(&self) -> bool {
        !matches!(
            self.page(),
            ScreenPage::Connection(_) | ScreenPage::Finding(_) | ScreenPage::Help
        )
    }

    /// Sets how many rows of a list fit on the screen.
    pub(super) fn set_rows(&mut self, rows: usize) {
        self.rows = rows;
        self.keep_in_sight();
    }

    /// Sets how many lines the open text has, and how many fit.
    pub(super) fn set_lines(&mut self, lines: usize, fit: usize) {
        self.lines = lines.saturating_sub(fit);
        self.rows = fit;
        let most = self.lines;
        if let Some(cursor) = self.cursor_mut() {
            cursor.offset = cursor.offset.min(most);
        }
    }

    /// Handles a key, and returns what the program should do.
    pub fn key(&mut self, key: KeyEvent) -> KeyAction {
        // Esc and a key right after it come as that key with Alt, which means nothing here
        if key.modifiers.contains(KeyModifiers::ALT) {
            self.key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
            return self.key(KeyEvent::new(key.code, key.modifiers - KeyModifiers::ALT));
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return KeyAction::Quit,
            KeyCode::Char('z') if control => return KeyAction::Suspend,
            _ if self.typing => self.type_filter(key.code),
            KeyCode::Char('f') if control => self.step(self.rows as isize),
            KeyCode::Char('b') if control => self.step(-(self.rows as isize)),
            KeyCode::Char('d') if control => self.step(self.rows as isize / 2),
            KeyCode::Char('u') if control => self.step(-(self.rows as isize / 2)),
            // anything else with Control is not a letter
            KeyCode::Char(_) if control => {}
            KeyCode::F(10) => return KeyAction::Quit,
            KeyCode::Char('q') if self.pages.len() == 1 => return KeyAction::Quit,
            code => self.plain_key(code),
        }
        KeyAction::Draw
    }

    /// Handles a key while no filter is typed.
    fn plain_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::PageDown => self.step(self.rows as isize),
            KeyCode::PageUp => self.step(-(self.rows as isize)),
            KeyCode::Home | KeyCode::Char('g') => self.step(isize::MIN / 2),
            KeyCode::End | KeyCode::Char('G') => self.step(isize::MAX / 2),
            KeyCode::Enter | KeyCode::Right => self.open(),
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace | KeyCode::Char('q') => {
                self.go_back()
            }
            KeyCode::Tab => self.turn_page(1),
            KeyCode::BackTab => self.turn_page(-1),
            KeyCode::Char('1') => self.go_to(ScreenPage::Connections),
            KeyCode::Char('2') => self.go_to(ScreenPage::Processes),
            KeyCode::Char('3' | 'f') => self.go_to(ScreenPage::Findings),
            KeyCode::Char('4') => self.go_to(ScreenPage::Services),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) if *self.page() != ScreenPage::Help => {
                self.push(ScreenPage::Help);
            }
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('/') | KeyCode::F(4) => self.begin_filter(),
            code => self.order_key(code),
        }
    }

    /// Handles the keys of sorted lists.
    fn order_key(&mut self, code: KeyCode) {
        if !self.is_list() {
            return;
        }
        match code {
            KeyCode::Char('>') | KeyCode::F(6) => self.sort(self.order.sort.step(1)),
            KeyCode::Char('<') => self.sort(self.order.sort.step(-1)),
            KeyCode::Char('H') => self.sort(SortKey::Held),
            KeyCode::Char('O') => self.sort(SortKey::Out),
            KeyCode::Char('I') => self.sort(SortKey::In),
            KeyCode::Char('T') => self.sort(SortKey::Rtt),
            KeyCode::Char('R') => self.sort(SortKey::Retransmits),
            KeyCode::Char('W') => self.sort(SortKey::Wait),
            KeyCode::Char('P') => self.sort(SortKey::Process),
            KeyCode::Char('r') => {
                self.order.reversed = !self.order.reversed;
                self.refresh();
            }
            KeyCode::Char('i') => {
                self.order.hide_idle = !self.order.hide_idle;
                self.refresh();
            }
            _ => {}
        }
    }

    /// Sorts by this column, the largest first.
    fn sort(&mut self, sort: SortKey) {
        self.order.sort = sort;
        self.order.reversed = false;
        self.refresh();
    }

    /// Begins to type a filter, on a list.
    fn begin_filter(&mut self) {
        if self.is_list() {
            self.typing = true;
        }
    }

    /// Handles a key while a filter is typed.
    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.order.filter.clear();
            }
            KeyCode::Backspace => {
                self.order.filter.pop();
            }
            KeyCode::Char(c) => self.order.filter.push(c),
            _ => return,
        }
        self.refresh();
    }

    /// Moves the selected row, or scrolls a page without rows.
    fn step(&mut self, by: isize) {
        let (is_list, number, most) = (self.is_list(), self.shown.len(), self.lines);
        let Some(cursor) = self.cursor_mut() else {
            return;
        };
        if is_list {
            cursor.index = cursor
                .index
                .saturating_add_signed(by)
                .min(number.saturating_sub(1));
            self.keep_in_sight();
        } else {
            cursor.offset = cursor.offset.saturating_add_signed(by).min(most);
        }
    }

    /// Opens what is selected; on a connection its finding.
    fn open(&mut self) {
        // of one connection: the finding on it
        let page = match self.page() {
            ScreenPage::Connection(id) => self.finding_on(*id),
            _ => self.selected_page(),
        };
        if let Some(page) = page {
            self.push(page);
        }
    }

    /// Returns the page of the finding on a connection; None if it has none.
    fn finding_on(&self, id: u64) -> Option<ScreenPage> {
        let live = self.live.as_ref()?;
        let place = place_of_finding(live, self.connection(id)?)?;
        Some(ScreenPage::Finding(finding_id(live, place)?))
    }

    /// Opens a page above the present one.
    fn push(&mut self, page: ScreenPage) {
        self.pages.push((page, Cursor::default()));
        self.history.clear();
        self.refresh();
    }

    /// Goes back one page, or from a filtered list to the whole list.
    fn go_back(&mut self) {
        if self.pages.len() > 1 {
            self.pages.pop();
        } else {
            self.order.filter.clear();
        }
        self.refresh();
    }

    /// Opens a page and forgets those below.
    fn go_to(&mut self, page: ScreenPage) {
        self.pages = vec![(page, Cursor::default())];
        self.refresh();
    }

    /// Goes to the next or previous list.
    fn turn_page(&mut self, by: isize) {
        let lists = [
            ScreenPage::Connections,
            ScreenPage::Processes,
            ScreenPage::Findings,
            ScreenPage::Services,
        ];
        let bottom = self.pages.first().map(|(page, _)| page.clone());
        let place = lists
            .iter()
            .position(|list| Some(list) == bottom.as_ref())
            .unwrap_or(0);
        let next = (place as isize + by).rem_euclid(lists.len() as isize) as usize;
        self.go_to(lists[next].clone());
    }
}

/// Returns what identifies a finding by its place in the list.
fn finding_id(live: &LiveReport, place: usize) -> Option<FindingId> {
    let (rule, subject) = match live.findings.get(place) {
        Some(finding) => (finding.rule.to_string(), &finding.subject),
        None => {
            let undecided = live.undecided.get(place - live.findings.len())?;
            (undecided.join_candidates(" or "), &undecided.subject)
        }
    };
    Some(FindingId {
        rule,
        process: subject.process.clone(),
        local: subject.local.clone(),
    })
}

/// Returns the place of the worst finding on a connection: one that names it, or its process.
pub(super) fn place_of_finding(live: &LiveReport, connection: &LiveConnection) -> Option<usize> {
    let named = |subject: &diagnose::report::FindingSubject| subject.ids.contains(&connection.id);
    let comm = |process: Option<&Process>| process.and_then(|process| process.comm.clone());
    let direct = live.findings.iter().position(|it| named(&it.subject));
    let alike = || {
        live.findings.iter().position(|it| {
            connection.findings.contains(&it.rule)
                && comm(it.subject.process.as_ref()) == comm(connection.process.as_ref())
        })
    };
    let undecided = || {
        let place = live.undecided.iter().position(|it| named(&it.subject))?;
        Some(place + live.findings.len())
    };
    direct.or_else(alike).or_else(undecided)
}
