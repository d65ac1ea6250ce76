//! Advertisements as bytes: the row of structures in which a frame is carried.
//!
//! ```text
//! ┌────────┬──────┬────────────┬───────┐ ┌────────┬──────┬──────
//! │ length │ type │ identifier │ frame │ │ length │ type │ …      length: of what follows it, at most 255
//! │   1    │  1   │ 2, little  │       │ │        │      │
//! └────────┴──────┴────────────┴───────┘ └────────┴──────┴──────
//! ```
//!
//! BlueZ takes advertisements apart itself, and never shows us these bytes; they come from recordings (`consent-mesh air
//! decode`) and from tests, which must see that nothing in them does harm. So this reads as strangers write: it stops at
//! what is wrong, says so, and allocates nothing.

use super::bytes::FrameBytes;
use super::carrier::Carrier;
use super::frame::MAX_FRAME_BYTES;

/// The longest advertisement that Bluetooth has, put together of its parts.
pub const MAX_ADVERTISEMENT_BYTES: usize = 1_650;

const MANUFACTURER_DATA: u8 = 0xff;
const SERVICE_DATA: u8 = 0x16;

/// Why bytes are no advertisement, or none with a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdvertisementError {
    /// More than [`MAX_ADVERTISEMENT_BYTES`].
    #[error("an advertisement has at most {MAX_ADVERTISEMENT_BYTES} bytes, this has {0}")]
    TooLong(usize),
    /// A structure ends after the advertisement.
    #[error("the structure at byte {at} says that it has {length} bytes, and there are {left}")]
    CutOff {
        /// Where its length is.
        at: usize,
        /// What that says.
        length: usize,
        /// How many there are.
        left: usize,
    },
    /// Two structures with our identifier: which one is meant?
    #[error("two structures have the identifier of frames")]
    Twice,
    /// Longer than any frame.
    #[error("{0} bytes have the identifier of frames, which have at most {MAX_FRAME_BYTES}")]
    NoFrame(usize),
}

/// The bytes that an advertisement carries for us; `None` if there are none, as in almost all of them.
///
/// The whole advertisement is read: one that is broken behind a frame is broken.
pub fn find(carrier: Carrier, advertisement: &[u8]) -> Result<Option<FrameBytes>, AdvertisementError> {
    let all = advertisement.len();
    if all > MAX_ADVERTISEMENT_BYTES {
        return Err(AdvertisementError::TooLong(all));
    }
    let (mut found, mut rest) = (None, advertisement);
    while let Some((length, after)) = rest.split_first() {
        let at = all.saturating_sub(rest.len());
        let length = usize::from(*length);
        // What follows the end are zeros.
        if length == 0 {
            break;
        }
        let cut_off = AdvertisementError::CutOff { at, length, left: after.len() };
        let (structure, next) = after.split_at_checked(length).ok_or(cut_off)?;
        rest = next;
        let Some(data) = ours(carrier, structure) else { continue };
        if found.is_some() {
            return Err(AdvertisementError::Twice);
        }
        found = Some(FrameBytes::new(data).ok_or(AdvertisementError::NoFrame(data.len()))?);
    }
    Ok(found)
}

/// What a structure has for us.
fn ours(carrier: Carrier, structure: &[u8]) -> Option<&[u8]> {
    let (kind, body) = structure.split_first()?;
    let (identifier, data) = body.split_first_chunk::<2>()?;
    let (wanted_kind, wanted) = match carrier {
        Carrier::Manufacturer(company) => (MANUFACTURER_DATA, company),
        Carrier::Service(uuid) => (SERVICE_DATA, uuid),
    };
    (*kind == wanted_kind && u16::from_le_bytes(*identifier) == wanted).then_some(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Carrier = Carrier::Manufacturer(0xffff);

    fn found(advertisement: &[u8]) -> Result<Option<Vec<u8>>, AdvertisementError> {
        Ok(find(OURS, advertisement)?.map(|frame| frame.as_slice().to_vec()))
    }

    #[test]
    fn a_frame_is_found_among_others() {
        let flags = [2, 1, 6];
        let apple = [5, 0xff, 0x4c, 0, 1, 2];
        let frame = [5, 0xff, 0xff, 0xff, 7, 8];
        assert_eq!(found(&[&flags[..], &apple, &frame].concat()), Ok(Some(vec![7, 8])));
        assert_eq!(found(&[&flags[..], &apple].concat()), Ok(None));
        assert_eq!(found(&[]), Ok(None));
        // The same bytes as service data are somebody else's.
        assert_eq!(find(Carrier::Service(0xffff), &frame), Ok(None));
        assert_eq!(find(Carrier::Service(0x1234), &[4, 0x16, 0x34, 0x12, 9]), Ok(FrameBytes::new(&[9])));
        // Too short for an identifier.
        assert_eq!(found(&[2, 0xff, 0xff, 1, 0xff]), Ok(None));
        assert_eq!(found(&[0, 5, 0xff, 0xff, 0xff, 7, 8]), Ok(None), "nothing follows the end");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let frame = [5, 0xff, 0xff, 0xff, 7, 8];
        assert_eq!(found(&frame[..5]), Err(AdvertisementError::CutOff { at: 0, length: 5, left: 4 }));
        assert_eq!(found(&[&frame[..], &[9]].concat()), Err(AdvertisementError::CutOff { at: 6, length: 9, left: 0 }));
        assert_eq!(found(&[frame, frame].concat()), Err(AdvertisementError::Twice));
        let long = [&[255, 0xff, 0xff, 0xff][..], &[1; 252]].concat();
        assert_eq!(found(&long), Err(AdvertisementError::NoFrame(252)));
        assert_eq!(found(&[0; 1_651]), Err(AdvertisementError::TooLong(1_651)));
    }
}
