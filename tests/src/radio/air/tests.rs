use super::*;
use crate::radio::controller::Generation;

/// An air in which controller 0 listens and a beacon advertises.
fn air() -> Air<Vec<u8>> {
    let mut air = Air::new(7, Vec::new());
    air.plug(0, Controller::new(BdAddr([1; 6]), Generation::Extended));
    air.command(Duration::ZERO, 0, Opcode(0x2042), Parameters(&[1, 0, 0, 0, 0, 0])).unwrap();
    air.beacon(BdAddr([2; 6]), true, vec![2, 1, 6]);
    air
}

/// How many reports there are in a hundred seconds.
fn reports(air: &mut Air<Vec<u8>>) -> usize {
    (0..20_000).map(|tick| air.pass(Duration::from_millis(5 * tick)).unwrap().len()).sum()
}

#[test]
fn what_is_lost_is_about_as_much_as_was_asked_for() {
    let all = reports(&mut air());
    let mut lossy = air();
    lossy.lose(30);
    let some = reports(&mut lossy);
    assert!((some * 100).div_ceil(all).abs_diff(70) <= 5, "{some} of {all}");
}

#[test]
fn a_cut_air_is_silent_and_the_log_tells_sent_from_heard() {
    let mut air = air();
    air.cut(true);
    assert_eq!(reports(&mut air), 0);
    assert_eq!(String::from_utf8(air.log).unwrap(), "0.000 sent - random 02:02:02:02:02:02 legacy 020106 -\n");
}

#[test]
fn the_log_says_everything_once() {
    let mut air = air();
    reports(&mut air);
    let log = String::from_utf8(air.log).unwrap();
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(log.contains("heard 0 random 02:02:02:02:02:02 legacy 020106 -"), "{log}");
}
