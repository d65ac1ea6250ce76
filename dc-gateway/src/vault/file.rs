//! A redb file that may be damaged, kept from doing harm.
//!
//! redb protects its pages with checksums, but follows some numbers before it has checked them. A wrong one makes it
//! panic, which can be caught, or ask for terabytes of memory, which ends the process. So [`check`] looks at the first
//! 40 bytes, which say how the file is laid out, and [`Bounded`] refuses to read what is not there.
//!
//! ```text
//!  0  magic number (9 bytes), flags (1), padding (2)
//! 12  page size, header pages of a region, data pages of a full region (4 bytes each, little endian)
//! 24  number of full regions, data pages of the last region (4 bytes each)
//! 32  where the table of regions is: index (20 bits), region (20 bits), …, order (top 5 bits); it has 2^order pages
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use redb::backends::FileBackend;
use redb::{DatabaseError, StorageBackend};

const MAGIC: &[u8; 9] = b"redb\x1A\x0A\xA9\x0D\x0A";
/// redb's defaults, which our vaults are made with.
const PAGE_BYTES: u32 = 4096;
const REGION_HEADER_PAGES: u32 = 130;
const REGION_DATA_PAGES: u32 = 1 << 20;

/// What is wrong with a file's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// Some other file.
    NotRedb,
    /// What it says cannot be.
    Damaged,
}

/// Checks that the layout is ours and fits into the file.
pub(super) fn check(file: &File) -> Result<(), HeaderError> {
    let mut header = [0; 40];
    file.read_exact_at(&mut header, 0).map_err(|_| HeaderError::Damaged)?;
    let length = file.metadata().map_err(|_| HeaderError::Damaged)?.len();
    if !header.starts_with(MAGIC) {
        return Err(HeaderError::NotRedb);
    }
    let (numbers, _) = header.as_chunks::<4>();
    let [_, _, _, page, header_pages, data_pages, full, last, _, tracker] = numbers else {
        return Err(HeaderError::Damaged);
    };
    let [page, header_pages, data_pages, full, last, tracker] =
        [page, header_pages, data_pages, full, last, tracker].map(|bytes| u32::from_le_bytes(*bytes));
    let ours = (page, header_pages, data_pages) == (PAGE_BYTES, REGION_HEADER_PAGES, REGION_DATA_PAGES);
    let pages_of = |data: u32| u64::from(header_pages) + u64::from(data);
    let full_pages = u64::from(full).saturating_mul(pages_of(data_pages));
    let last_pages = if last == 0 { 0 } else { pages_of(last) };
    // One page before the first region.
    let pages = full_pages.saturating_add(last_pages).saturating_add(1);
    let tracker_pages = 1_u64 << (tracker >> 27);
    let fits = |pages: u64| pages.saturating_mul(u64::from(PAGE_BYTES)) <= length;
    if ours && last <= data_pages && fits(pages) && fits(tracker_pages) { Ok(()) } else { Err(HeaderError::Damaged) }
}

/// redb's own way to a file, lock included, except that a length is compared with the file's before it is believed.
#[derive(Debug)]
pub(super) struct Bounded(FileBackend);

impl Bounded {
    pub(super) fn new(file: File) -> Result<Self, DatabaseError> {
        FileBackend::new(file).map(Self)
    }
}

impl StorageBackend for Bounded {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        if offset.saturating_add(length as u64) > self.0.len()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.0.read(offset, length)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync_data(&self, eventual: bool) -> io::Result<()> {
        self.0.sync_data(eventual)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}
