//! Commands in the order in which Linux gives them.

use super::*;

const ADDRESS: BdAddr = BdAddr([1, 0, 0, 1, 0xaa, 0]);
const OTHER: BdAddr = BdAddr([2, 0, 0, 1, 0xaa, 0]);
const NOW: Duration = Duration::from_secs(1);

/// The status and what follows it.
fn tell(controller: &mut Controller, opcode: u16, parameters: &[u8]) -> (u8, Vec<u8>) {
    let (_, event) = controller.command(NOW, Opcode(opcode), Parameters(parameters));
    assert_eq!(event[..4], [4, 0x0e, (event.len() - 3) as u8, 1]);
    assert_eq!(event[4..6], opcode.to_le_bytes());
    (event[6], event[7..].to_vec())
}

fn sent(controller: &mut Controller, now: Duration) -> Vec<Transmission> {
    controller.due(now, Duration::ZERO).0
}

fn heard(listener: &mut Controller, transmission: &Transmission) -> usize {
    listener.hear(transmission).len()
}

/// Parameters of a set: legacy and connectable, or extended, every 100 ms, from the public address.
fn parameters(handle: u8, properties: u8) -> Vec<u8> {
    let mut all = vec![handle, properties, 0, 160, 0, 0, 160, 0, 0, 7, 0];
    all.extend([0; 7]);
    all.extend([0, 7, 1, 0, 2, handle]);
    all
}

fn advertise(controller: &mut Controller, handle: u8, properties: u8, data: &[u8]) {
    assert_eq!(tell(controller, 0x2036, &parameters(handle, properties)).0, 0);
    assert_eq!(tell(controller, 0x2037, &[&[handle, 3, 1, data.len() as u8], data].concat()).0, 0);
    assert_eq!(tell(controller, 0x2039, &[1, 1, handle, 0, 0, 0]).0, 0);
}

fn scanning(generation: Generation, filter: u8) -> Controller {
    let mut controller = Controller::new(OTHER, generation);
    let (parameters, enable) = match generation {
        Generation::Legacy => (0x200b, 0x200c),
        Generation::Extended => (0x2041, 0x2042),
    };
    assert_eq!(tell(&mut controller, parameters, &[0, 0, 1, 1, 0, 0]).0, 0);
    assert_eq!(tell(&mut controller, enable, &[1, filter, 0, 0, 0, 0]).0, 0);
    controller
}

#[test]
fn several_sets_are_sent_at_their_intervals() {
    let mut controller = Controller::new(ADDRESS, Generation::Extended);
    advertise(&mut controller, 1, 0x13, &[2, 1, 6]);
    advertise(&mut controller, 2, 0x00, &[7; 200]);
    let first = sent(&mut controller, NOW);
    assert_eq!(
        first.iter().map(|sent| (sent.is_legacy(), sent.data.len())).collect::<Vec<_>>(),
        [(true, 3), (false, 200)]
    );
    assert!(first.iter().all(|sent| sent.address == ADDRESS && !sent.random));
    assert!(sent(&mut controller, NOW + Duration::from_millis(99)).is_empty());
    assert_eq!(sent(&mut controller, NOW + Duration::from_millis(100)).len(), 2);
    assert_eq!(tell(&mut controller, 0x2039, &[0, 0]).0, 0);
    assert!(sent(&mut controller, NOW + Duration::from_secs(1)).is_empty());
}

#[test]
fn a_set_with_a_duration_ends_and_says_so() {
    let mut controller = Controller::new(ADDRESS, Generation::Extended);
    advertise(&mut controller, 3, 0x13, &[2, 1, 6]);
    assert_eq!(tell(&mut controller, 0x2039, &[1, 1, 3, 100, 0, 0]).0, 0);
    assert_eq!(sent(&mut controller, NOW).len(), 1);
    let (sent, events) = controller.due(NOW + Duration::from_secs(1), Duration::ZERO);
    assert!(sent.is_empty());
    assert_eq!(events, [vec![4, 0x3e, 6, 0x12, 0x3c, 3, 0, 0, 0]]);
}

#[test]
fn long_data_comes_in_fragments_and_not_into_a_legacy_set() {
    let mut controller = Controller::new(ADDRESS, Generation::Extended);
    advertise(&mut controller, 1, 0x00, &[]);
    assert_eq!(tell(&mut controller, 0x2037, &[&[1, 1, 1, 251][..], &[1; 251]].concat()).0, 0);
    assert_eq!(tell(&mut controller, 0x2037, &[&[1, 2, 1, 100][..], &[2; 100]].concat()).0, 0);
    let first = &sent(&mut controller, NOW)[0];
    assert_eq!(first.data.len(), 351);
    assert_eq!(heard(&mut scanning(Generation::Extended, 0), first), 2, "in two reports");

    advertise(&mut controller, 2, 0x13, &[]);
    assert_eq!(tell(&mut controller, 0x2037, &[&[2, 3, 1, 32][..], &[1; 32]].concat()).0, 0x12);
    assert_eq!(tell(&mut controller, 0x2037, &[9, 3, 1, 0]).0, 0x42, "no such set");
}

#[test]
fn the_duplicates_filter_forgets_when_scanning_begins_again() {
    let one = Transmission::beacon(ADDRESS, false, vec![1]);
    let changed = Transmission::beacon(ADDRESS, false, vec![2]);
    let mut unfiltered = scanning(Generation::Extended, 0);
    assert_eq!((heard(&mut unfiltered, &one), heard(&mut unfiltered, &one)), (1, 1));
    let mut filtered = scanning(Generation::Extended, 1);
    assert_eq!((heard(&mut filtered, &one), heard(&mut filtered, &changed)), (1, 0));
    let extended = |data: u8| Transmission { properties: 0, ..Transmission::beacon(ADDRESS, false, vec![data]) };
    assert_eq!([3, 3, 4].map(|data| heard(&mut filtered, &extended(data))), [1, 0, 1], "there data counts");
    assert_eq!(tell(&mut filtered, 0x2042, &[1, 1, 0, 0, 0, 0]).0, 0);
    assert_eq!(heard(&mut filtered, &changed), 1);
}

#[test]
fn active_scanning_gets_the_response() {
    let mut controller = Controller::new(ADDRESS, Generation::Legacy);
    assert_eq!(tell(&mut controller, 0x2006, &[160, 0, 160, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0]).0, 0);
    assert_eq!(tell(&mut controller, 0x2009, &[2, 8, 9]).0, 0);
    assert_eq!(tell(&mut controller, 0x200a, &[1]).0, 0);
    let sent = &sent(&mut controller, NOW)[0];
    let mut active = scanning(Generation::Legacy, 0);
    assert_eq!(tell(&mut active, 0x200b, &[1]).0, 0);
    assert_eq!(active.hear(sent).len(), 2);
    assert_eq!(heard(&mut scanning(Generation::Legacy, 0), sent), 1);
}

#[test]
fn bluetooth_4_has_nothing_of_bluetooth_5() {
    let mut legacy = scanning(Generation::Legacy, 0);
    for opcode in [0x2036, 0x2039, 0x203b, 0x2041, 0x204b] {
        assert_eq!(tell(&mut legacy, opcode, &[0; 25]).0, 1, "{opcode:04x}");
    }
    let mut sender = Controller::new(ADDRESS, Generation::Extended);
    advertise(&mut sender, 1, 0x00, &[7; 200]);
    assert_eq!(heard(&mut legacy, &sent(&mut sender, NOW)[0]), 0);
    assert_eq!(tell(&mut sender, 0x204b, &[]), (0, vec![0xec, 0xff, 10, 0]));
}

#[test]
fn a_reset_ends_everything() {
    let mut controller = scanning(Generation::Extended, 0);
    advertise(&mut controller, 1, 0x13, &[2, 1, 6]);
    assert_eq!(tell(&mut controller, 0x0c03, &[]).0, 0);
    assert!(sent(&mut controller, NOW).is_empty());
    assert_eq!(heard(&mut controller, &Transmission::beacon(ADDRESS, false, vec![1])), 0);
}

#[test]
fn cut_parameters_are_refused() {
    let mut controller = Controller::new(ADDRESS, Generation::Extended);
    for opcode in [0x2005, 0x2006, 0x2008, 0x200a, 0x200b, 0x200c, 0x2036, 0x2039, 0x2041, 0x2042] {
        assert_eq!(tell(&mut controller, opcode, &[]).0, 0x12, "{opcode:04x}");
    }
}
