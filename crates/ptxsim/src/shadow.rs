//! Who touched a byte last: what races are told by.

/// A thread of the launch, and how many barriers its block has passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Toucher {
    pub(crate) block: u32,
    pub(crate) thread: u32,
    pub(crate) epoch: u32,
}

const NOBODY: u32 = u32::MAX;
const MANY: u32 = u32::MAX - 1;

/// The history of one byte, as far as it matters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct History {
    write_block: u32,
    write_thread: u32,
    write_epoch: u32,
    read_block: u32,
    /// Of the last epoch with a read.
    read_thread: u32,
    read_epoch: u32,
    /// Read by an instruction that takes for granted that nobody writes here in this launch.
    read_as_constant: bool,
}

/// Two touches that nothing orders: `by` says who did the other one, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) other: String,
    pub(crate) other_access: &'static str,
}

impl Default for History {
    fn default() -> Self {
        Self {
            write_block: NOBODY,
            write_thread: NOBODY,
            write_epoch: 0,
            read_block: NOBODY,
            read_thread: NOBODY,
            read_epoch: 0,
            read_as_constant: false,
        }
    }
}

fn conflict(who: Toucher, block: u32, thread: u32, other_access: &'static str) -> Option<Conflict> {
    let other = match (block, thread) {
        (MANY, _) => "another block".to_owned(),
        (b, _) if b != who.block => format!("block {b}"),
        (_, MANY) => "another thread".to_owned(),
        (_, t) => format!("thread {t}"),
    };
    Some(Conflict { other, other_access })
}

impl History {
    /// Whether anybody has written here in this launch.
    pub(crate) fn is_written(&self) -> bool {
        self.write_block != NOBODY
    }

    /// Takes note of a read that holds the byte for constant.
    pub(crate) fn note_constant(&mut self) {
        self.read_as_constant = true;
    }

    /// Whether anybody has read here in this launch and held the byte for constant.
    pub(crate) fn is_read_as_constant(&self) -> bool {
        self.read_as_constant
    }

    fn written_at_the_same_time(&self, who: Toucher) -> Option<Conflict> {
        if self.write_block == NOBODY {
            return None;
        }
        let ordered =
            self.write_block == who.block && (self.write_thread == who.thread || self.write_epoch < who.epoch);
        if ordered { None } else { conflict(who, self.write_block, self.write_thread, "writes") }
    }

    /// Takes note of a read; gives what it conflicts with.
    pub(crate) fn read(&mut self, who: Toucher) -> Option<Conflict> {
        let found = self.written_at_the_same_time(who);
        let same_block = self.read_block == who.block;
        self.read_thread = match self.read_thread {
            t if same_block && self.read_epoch == who.epoch && t != who.thread => MANY,
            _ => who.thread,
        };
        self.read_epoch = who.epoch;
        self.read_block = if self.read_block == NOBODY || same_block { who.block } else { MANY };
        found
    }

    /// Takes note of a write; gives what it conflicts with.
    pub(crate) fn write(&mut self, who: Toucher) -> Option<Conflict> {
        let mut found = self.written_at_the_same_time(who);
        if found.is_none() && self.read_block != NOBODY {
            let other_block = self.read_block != who.block;
            if other_block || (self.read_epoch == who.epoch && self.read_thread != who.thread) {
                found = conflict(who, self.read_block, self.read_thread, "reads");
            }
        }
        (self.write_block, self.write_thread, self.write_epoch) = (who.block, who.thread, who.epoch);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(block: u32, thread: u32, epoch: u32) -> Toucher {
        Toucher { block, thread, epoch }
    }

    #[test]
    fn barriers_order_threads_and_nothing_orders_blocks() {
        let mut byte = History::default();
        assert_eq!(byte.write(at(0, 1, 0)), None);
        assert_eq!(byte.read(at(0, 1, 0)), None);
        assert_eq!(byte.read(at(0, 2, 0)).map(|c| c.other), Some("thread 1".to_owned()));
        assert_eq!(byte.read(at(0, 3, 1)), None);
        assert_eq!(byte.write(at(0, 4, 1)).map(|c| c.other_access), Some("reads"));
        assert_eq!(byte.write(at(1, 0, 9)).map(|c| c.other), Some("block 0".to_owned()));
    }

    #[test]
    fn everybody_may_read() {
        let mut byte = History::default();
        for block in 0..3 {
            for thread in 0..3 {
                assert_eq!(byte.read(at(block, thread, 0)), None);
            }
        }
        assert_eq!(byte.write(at(2, 2, 5)).map(|c| c.other), Some("another block".to_owned()));
    }

    #[test]
    fn a_thread_may_write_what_it_alone_has_read() {
        let mut byte = History::default();
        assert_eq!(byte.read(at(0, 1, 0)), None);
        assert_eq!(byte.write(at(0, 1, 0)), None);
        assert_eq!(byte.write(at(0, 1, 0)), None);
    }
}
