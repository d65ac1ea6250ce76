//! The live table. On a terminal it is drawn over itself; elsewhere, lines are printed when they change.

use std::io::{self, IsTerminal as _, Write};

use rustix::termios::tcgetwinsize;

/// What a terminal that does not say how large it is can show at least.
const USUAL: Size = Size { columns: 80, rows: 24 };

/// How large a terminal is, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    columns: usize,
    rows: usize,
}

impl Size {
    /// Of the terminal on standard output, if there is one. Asked each time, since people resize windows.
    pub(super) fn of_terminal() -> Option<Self> {
        let stdout = io::stdout();
        if !stdout.is_terminal() {
            return None;
        }
        let told = tcgetwinsize(stdout).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
        Some(told.map_or(USUAL, |size| Self { columns: size.ws_col.into(), rows: size.ws_row.into() }))
    }
}

/// What was shown last.
#[derive(Debug, Default)]
pub(super) struct Table {
    lines: Vec<String>,
    countdown: Option<u64>,
    /// How many lines of the terminal it takes up. No line is wider than the terminal, so it is as many as were printed.
    height: usize,
}

impl Table {
    /// Brings it up to date.
    pub(super) fn show(
        &mut self,
        lines: Vec<String>,
        seconds_left: Option<u64>,
        size: Option<Size>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        if size.is_none() {
            let mut new = lines.iter().filter(|line| !self.lines.contains(line));
            new.try_for_each(|line| writeln!(out, "{line}"))?;
        }
        (self.lines, self.countdown) = (lines, seconds_left);
        if let Some(size) = size {
            self.erase(out)?;
            self.draw(size, out)?;
        }
        out.flush()
    }

    /// Says something above it, which stays.
    pub(super) fn say(&mut self, what: &str, size: Option<Size>, out: &mut impl Write) -> io::Result<()> {
        self.erase(out)?;
        writeln!(out, "{what}")?;
        if let Some(size) = size {
            self.draw(size, out)?;
        }
        out.flush()
    }

    fn erase(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.height > 0 {
            // Up to its first line, and everything below is gone.
            write!(out, "\x1b[{}A\x1b[J", self.height)?;
        }
        self.height = 0;
        Ok(())
    }

    fn draw(&mut self, size: Size, out: &mut impl Write) -> io::Result<()> {
        let head = format!("  {:<10} {:<16} {:<4} {:<9} why", "phone", "controller", "says", "");
        let foot = self.countdown.map(|seconds| format!("  {seconds} s left, Ctrl-C ends it now"));
        // What has scrolled out of the terminal cannot be drawn over: with its head, its foot, how many lines are left
        // out and the line of the cursor, the table must fit.
        let fits = size.rows.saturating_sub(4).max(1);
        let left_out = self.lines.len().saturating_sub(fits);
        let more = (left_out > 0 && self.countdown.is_some()).then(|| format!("  … and {left_out} more"));
        let shown = if more.is_some() { fits } else { self.lines.len() };
        for line in [head].iter().chain(self.lines.iter().take(shown)).chain(&more).chain(&foot) {
            writeln!(out, "{}", cut(line, size.columns))?;
            self.height += 1;
        }
        Ok(())
    }
}

/// A line as far as it fits.
fn cut(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    line.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal that knows what the table needs: it wraps, scrolls, goes up and erases what is below.
    struct Screen {
        size: Size,
        lines: Vec<String>,
        row: usize,
    }

    impl Screen {
        fn new(columns: usize, rows: usize) -> Self {
            Self { size: Size { columns, rows }, lines: vec![String::new()], row: 0 }
        }

        fn print(&mut self, bytes: &[u8]) {
            let text = String::from_utf8(bytes.to_vec()).expect("text");
            let mut rest = text.chars();
            while let Some(character) = rest.next() {
                match character {
                    '\n' => self.next_row(),
                    '\x1b' => {
                        let sequence: String = rest.by_ref().skip(1).take_while(|it| *it != 'A').collect();
                        let top = self.lines.len().saturating_sub(self.size.rows);
                        self.row = self.row.saturating_sub(sequence.parse().expect("a number")).max(top);
                        assert_eq!(rest.by_ref().take(3).collect::<String>(), "\x1b[J");
                        self.lines.truncate(self.row);
                        self.lines.push(String::new());
                    }
                    character => {
                        if self.lines[self.row].chars().count() == self.size.columns {
                            self.next_row();
                        }
                        self.lines[self.row].push(character);
                    }
                }
            }
        }

        fn next_row(&mut self) {
            self.row += 1;
            if self.row == self.lines.len() {
                self.lines.push(String::new());
            }
        }

        fn count(&self, part: &str) -> usize {
            self.lines.iter().filter(|line| line.contains(part)).count()
        }
    }

    fn rows(count: usize) -> Vec<String> {
        (0..count)
            .map(|at| format!("  phone-{at:<4} mall-gate        no             {}", "because ".repeat(9)))
            .collect()
    }

    /// However wide or high the terminal is, one table is left, and what was said meanwhile stays.
    #[test]
    fn it_draws_over_itself() {
        for (columns, height, count) in [(80, 24, 15), (100, 24, 15), (120, 50, 15), (20, 10, 15), (80, 24, 36)] {
            let mut screen = Screen::new(columns, height);
            let (mut table, size) = (Table::default(), Some(screen.size));
            screen.print(b"A shopping mall.\n");
            for (left, count) in [(5, 0), (4, 1), (3, count), (2, count)] {
                let mut out = Vec::new();
                table.show(rows(count), Some(left), size, &mut out).expect("memory");
                if left == 3 {
                    table.say("erin changes", size, &mut out).expect("memory");
                }
                screen.print(&out);
            }
            let mut out = Vec::new();
            table.show(rows(count), None, size, &mut out).expect("memory");
            screen.print(&out);
            let shape = format!("{columns}×{height}: {:#?}", screen.lines);
            assert_eq!(screen.lines[..2], ["A shopping mall.", "erin changes"], "{shape}");
            assert_eq!((screen.count("contro"), screen.count(" s left")), (1, 0), "{shape}");
            assert_eq!(screen.lines.len(), 2 + 1 + count + 1, "{shape}");
        }
    }

    /// Elsewhere, what has changed is printed, and nothing that steers a terminal.
    #[test]
    fn a_pipe_gets_what_has_changed() {
        let (mut table, mut out) = (Table::default(), Vec::new());
        for count in [0, 1, 2, 2] {
            table.show(rows(count), Some(1), None, &mut out).expect("memory");
        }
        table.say("erin changes", None, &mut out).expect("memory");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text, format!("{}\n{}\nerin changes\n", rows(2)[0], rows(2)[1]));
    }
}
