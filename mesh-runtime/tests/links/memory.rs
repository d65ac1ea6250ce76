//! What only the hub inside the process can do: faults by seed, and partitions.

use mesh_runtime::link::memory::{Faults, Hub};
use mesh_runtime::link::{Disconnection, Event, MAX_EVENTS};

use crate::support::{await_connected, await_disconnected, await_message, filter, topic};

/// The numbers that arrive of 0 to 499.
async fn arrivals(faults: Faults) -> Vec<u16> {
    let hub = Hub::with_faults(faults);
    let (receiver, mut events) = hub.connect();
    receiver.subscribe(filter("numbers")).unwrap();
    await_connected(&mut events).await;
    let (sender, mut sender_events) = hub.connect();
    await_connected(&mut sender_events).await;
    for number in 0..500_u16 {
        sender.publish(topic("numbers"), number.to_be_bytes().to_vec()).unwrap();
    }
    sender.close();
    assert_eq!(await_disconnected(&mut sender_events).await, Disconnection::Closed);
    receiver.close();
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        if let Event::Message(message) = event {
            seen.push(u16::from_be_bytes([message.payload[0], message.payload[1]]));
        }
    }
    seen
}

fn is_sorted_without_repetition(numbers: &[u16]) -> bool {
    numbers.windows(2).all(|pair| pair[0] < pair[1])
}

/// Each fault does what its name says and nothing else, at about its rate.
#[tokio::test]
async fn each_fault_does_what_it_says() {
    let seed = 11;
    let whole = arrivals(Faults { seed, ..Faults::default() }).await;
    assert_eq!(whole, (0..500).collect::<Vec<_>>());

    let lossy = arrivals(Faults { seed, loss: 200, ..Faults::default() }).await;
    assert!(is_sorted_without_repetition(&lossy));
    assert!((350..450).contains(&lossy.len()), "{}", lossy.len());

    let twice = arrivals(Faults { seed, duplication: 200, ..Faults::default() }).await;
    assert!((550..650).contains(&twice.len()), "{}", twice.len());
    let mut once = twice.clone();
    once.dedup();
    assert_eq!(once, whole);

    let mixed = arrivals(Faults { seed, reordering: 200, ..Faults::default() }).await;
    assert!(!mixed.is_sorted());
    assert!(mixed.len() >= 499, "only the last one may be held for ever");
    let mut sorted = mixed.clone();
    sorted.sort_unstable();
    assert!(is_sorted_without_repetition(&sorted));
}

/// One seed fixes all faults; another seed gives others.
#[tokio::test]
async fn equal_seeds_give_equal_runs() {
    let faults = |seed| Faults { seed, loss: 100, duplication: 100, reordering: 100 };
    assert_eq!(arrivals(faults(1)).await, arrivals(faults(1)).await);
    assert_ne!(arrivals(faults(1)).await, arrivals(faults(2)).await);
}

/// Nothing crosses a partition in either direction; others are not concerned; afterwards what waited is sent.
#[tokio::test]
async fn a_partition_cuts_one_link_off() {
    let hub = Hub::new();
    let (cut, mut cut_events) = hub.connect();
    let (other, mut other_events) = hub.connect();
    for (link, events) in [(&cut, &mut cut_events), (&other, &mut other_events)] {
        link.subscribe(filter("all")).unwrap();
        await_connected(events).await;
    }
    hub.partition(&cut);
    cut.publish(topic("all"), &b"from inside"[..]).unwrap();
    other.publish(topic("all"), &b"from outside"[..]).unwrap();
    assert_eq!(await_message(&mut other_events).await.payload, b"from outside"[..]);
    let next = cut_events.next().await;
    assert!(matches!(&next, Some(Event::Disconnected { reason: Disconnection::Lost(_) })), "came through: {next:?}");
    hub.heal(&cut);
    assert_eq!(cut_events.next().await, Some(Event::Connected), "nothing from outside came through");
    assert_eq!(await_message(&mut other_events).await.payload, b"from inside"[..]);
    assert_eq!(await_message(&mut cut_events).await.payload, b"from inside"[..]);
}

/// A member that does not take its events loses messages, and they are counted; it does not hold up the others.
#[tokio::test]
async fn a_slow_member_loses_messages() {
    let hub = Hub::new();
    let (slow, mut slow_events) = hub.connect();
    slow.subscribe(filter("all")).unwrap();
    await_connected(&mut slow_events).await;
    let (quick, mut quick_events) = hub.connect();
    quick.subscribe(filter("all")).unwrap();
    await_connected(&mut quick_events).await;
    for _ in 0..MAX_EVENTS + 5 {
        quick.publish(topic("all"), &b"x"[..]).unwrap();
        await_message(&mut quick_events).await;
    }
    assert_eq!((slow.dropped(), quick.dropped()), (5, 0));
}
