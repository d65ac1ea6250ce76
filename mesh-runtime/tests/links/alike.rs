//! One body per test, run against all three carriers: what a daemon may rely on does not depend on what carries it.

use mesh_runtime::link::{
    Disconnection, Event, MAX_OUTBOX_BYTES, MAX_OUTBOX_MESSAGES, MAX_PACKET_BYTES, MAX_PAYLOAD_BYTES, MAX_TOPIC_BYTES,
    PUBLISH_OVERHEAD_BYTES, PublishError,
};

use crate::support::{Carrier, PATIENCE, await_connected, await_disconnected, await_message, filter, topic};

macro_rules! alike {
    ($($test:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test] async fn $test() { super::$test(super::Carrier::memory()).await; })*
        }
        mod embedded {
            $(#[tokio::test] async fn $test() { super::$test(super::Carrier::embedded().await).await; })*
        }
        mod mosquitto {
            $(#[tokio::test] async fn $test() { super::$test(super::Carrier::mosquitto()).await; })*
        }
    };
}

alike!(
    request_and_response,
    a_thousand_messages_in_order,
    subscriptions_end,
    reconnects_and_subscribes_again,
    full_outbox_drops_the_oldest,
    outbox_is_bounded_in_bytes,
    largest_message_passes_and_a_larger_one_is_refused,
    closing_sends_what_is_waiting,
    closing_without_a_carrier,
);

/// A question on one topic, its answer on another whose subscription was made just before, and wildcards.
async fn request_and_response(carrier: Carrier) {
    let (server, mut requests) = carrier.link();
    server.subscribe(filter("request/+")).unwrap();
    await_connected(&mut requests).await;
    let (client, mut answers) = carrier.link();
    await_connected(&mut answers).await;

    client.subscribe(filter("answer/7")).unwrap();
    client.publish(topic("request/7"), &b"question"[..]).unwrap();
    let request = await_message(&mut requests).await;
    assert_eq!((request.topic.as_str(), &request.payload[..]), ("request/7", &b"question"[..]));
    server.publish(topic("answer/7"), &b"answer"[..]).unwrap();
    let answer = await_message(&mut answers).await;
    assert_eq!((answer.topic.as_str(), &answer.payload[..]), ("answer/7", &b"answer"[..]));
    assert_eq!((client.dropped(), server.dropped()), (0, 0));
}

/// Published in one go, without waiting: none is lost, none is out of order, none comes twice.
async fn a_thousand_messages_in_order(carrier: Carrier) {
    let (receiver, mut events) = carrier.link();
    receiver.subscribe(filter("numbers/#")).unwrap();
    await_connected(&mut events).await;
    let (sender, _sender_events) = carrier.link();
    for number in 0..1000_u32 {
        sender.publish(topic("numbers/all"), number.to_be_bytes().to_vec()).unwrap();
    }
    for number in 0..1000_u32 {
        assert_eq!(await_message(&mut events).await.payload, number.to_be_bytes()[..]);
    }
    assert_eq!(sender.dropped(), 0);
}

/// After `unsubscribe` a topic is silent; the order of one link's commands is kept.
async fn subscriptions_end(carrier: Carrier) {
    let (link, mut events) = carrier.link();
    await_connected(&mut events).await;
    link.subscribe(filter("first")).unwrap();
    link.subscribe(filter("second")).unwrap();
    link.publish(topic("first"), &b"1"[..]).unwrap();
    assert_eq!(await_message(&mut events).await.payload, b"1"[..]);
    link.unsubscribe(&filter("first")).unwrap();
    link.publish(topic("first"), &b"2"[..]).unwrap();
    link.publish(topic("second"), &b"3"[..]).unwrap();
    assert_eq!(await_message(&mut events).await.payload, b"3"[..], "the topic is still subscribed");
}

/// The carrier is killed and started again, twice: both links say so, come back, and messages flow, also on a filter
/// that was added while there was no connection, and not on one that was taken away then.
async fn reconnects_and_subscribes_again(mut carrier: Carrier) {
    let (receiver, mut events) = carrier.link();
    receiver.subscribe(filter("before/+")).unwrap();
    receiver.subscribe(filter("unwanted")).unwrap();
    let (sender, mut sender_events) = carrier.link();
    await_connected(&mut events).await;
    await_connected(&mut sender_events).await;
    for round in 0..2_u8 {
        carrier.kill().await;
        let reason = await_disconnected(&mut events).await;
        assert!(matches!(reason, Disconnection::Lost(_)), "{reason}");
        await_disconnected(&mut sender_events).await;
        receiver.subscribe(filter(&format!("during/{round}"))).unwrap();
        receiver.unsubscribe(&filter("unwanted")).unwrap();
        carrier.restart().await;
        await_connected(&mut events).await;
        await_connected(&mut sender_events).await;
        for (name, content) in [("unwanted", b"no"), ("before/x", b"b1"), ("during/0", b"d1")] {
            sender.publish(topic(name), &content[..]).unwrap();
        }
        assert_eq!(await_message(&mut events).await.payload, b"b1"[..]);
        assert_eq!(await_message(&mut events).await.payload, b"d1"[..]);
    }
}

/// Without a connection, `MAX_OUTBOX_MESSAGES` are kept, the oldest are dropped and counted, and the others leave, in
/// order, once there is a connection.
async fn full_outbox_drops_the_oldest(mut carrier: Carrier) {
    const MORE: usize = 10;
    let (link, mut events) = carrier.link();
    link.subscribe(filter("self")).unwrap();
    await_connected(&mut events).await;
    carrier.kill().await;
    await_disconnected(&mut events).await;
    for number in 0..MAX_OUTBOX_MESSAGES + MORE {
        link.publish(topic("self"), number.to_be_bytes().to_vec()).unwrap();
    }
    assert_eq!((link.waiting(), link.dropped()), (MAX_OUTBOX_MESSAGES, MORE as u64));
    carrier.restart().await;
    for number in MORE..MAX_OUTBOX_MESSAGES + MORE {
        assert_eq!(await_message(&mut events).await.payload, number.to_be_bytes()[..]);
    }
    assert_eq!((link.waiting(), link.dropped()), (0, MORE as u64));
}

/// Few large messages fill the outbox as well as many small ones.
async fn outbox_is_bounded_in_bytes(mut carrier: Carrier) {
    let (link, mut events) = carrier.link();
    await_connected(&mut events).await;
    carrier.kill().await;
    await_disconnected(&mut events).await;
    let fit = MAX_OUTBOX_BYTES / (MAX_PAYLOAD_BYTES + "t".len());
    for _ in 0..fit + 3 {
        link.publish(topic("t"), vec![0; MAX_PAYLOAD_BYTES]).unwrap();
    }
    assert_eq!((link.waiting(), link.dropped()), (fit, 3));
}

/// The largest packet passes, on the longest topic as well; one byte more is refused with the limit, before sending, and
/// the link goes on.
async fn largest_message_passes_and_a_larger_one_is_refused(carrier: Carrier) {
    let (link, mut events) = carrier.link();
    link.subscribe(filter("#")).unwrap();
    await_connected(&mut events).await;
    for name in ["t".to_owned(), "t".repeat(MAX_TOPIC_BYTES)] {
        let largest = MAX_PACKET_BYTES - PUBLISH_OVERHEAD_BYTES - name.len();
        let refused = link.publish(topic(&name), vec![0; largest + 1]).unwrap_err();
        assert_eq!(refused, PublishError::TooLarge { packet: MAX_PACKET_BYTES + 1, limit: MAX_PACKET_BYTES });
        assert!(refused.to_string().contains("262144"), "{refused}");
        link.publish(topic(&name), vec![1; largest]).unwrap();
        // The embedded broker's own ping also arrives at `#`.
        while await_message(&mut events).await.payload.len() != largest {}
    }
}

/// What was published before `close` arrives; then the events end, and further publications are refused.
async fn closing_sends_what_is_waiting(carrier: Carrier) {
    let (receiver, mut events) = carrier.link();
    receiver.subscribe(filter("last/words")).unwrap();
    await_connected(&mut events).await;
    let (sender, mut sender_events) = carrier.link();
    await_connected(&mut sender_events).await;
    for number in 0..100_u8 {
        sender.publish(topic("last/words"), vec![number]).unwrap();
    }
    sender.close();
    assert_eq!(sender.publish(topic("last/words"), vec![100]), Err(PublishError::Closed));
    for number in 0..100_u8 {
        assert_eq!(await_message(&mut events).await.payload, [number][..]);
    }
    assert_eq!(await_disconnected(&mut sender_events).await, Disconnection::Closed);
    assert_eq!(sender_events.next().await, None);
}

/// A link without connection closes at once, whether asked to or because its last handle is dropped.
async fn closing_without_a_carrier(mut carrier: Carrier) {
    carrier.kill().await;
    for drop_it in [false, true] {
        let (link, mut events) = carrier.link();
        link.publish(topic("t"), &b"never leaves"[..]).unwrap();
        if drop_it {
            drop(link);
        } else {
            link.close();
        }
        let ends =
            async { while events.next().await != Some(Event::Disconnected { reason: Disconnection::Closed }) {} };
        tokio::time::timeout(PATIENCE, ends).await.expect("the link closes");
        assert_eq!(events.next().await, None);
    }
}
