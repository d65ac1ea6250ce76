//! A Bluetooth radio by hand, to see what BlueZ makes of frames:
//!
//! ```console
//! $ radio speak hci0 24 100          # for each length a frame of that many bytes, two seconds each, then silence
//! $ radio listen hci1 10             # what is heard in ten seconds; shows addresses
//! ```
//!
//! `CARRIER=fd6f` makes frames service data of that UUID.

#![allow(clippy::print_stdout, reason = "an example")]

use std::time::{Duration, Instant};

use mesh_runtime::air::bluez::{self, AdapterName, Settings};
use mesh_runtime::air::{Carrier, FrameBytes};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    mesh_runtime::daemon::logging::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run())
}

async fn run() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, adapter, numbers @ ..] = arguments.as_slice() else { return Err("see the source".into()) };
    let carrier = Carrier::of(None, std::env::var("CARRIER").ok().as_deref())?;
    let settings = Settings { adapter: AdapterName::new(adapter).ok_or("no adapter")?, carrier };
    let start = Instant::now();
    let at = || format!("{:7.3}", start.elapsed().as_secs_f64());
    println!("{} {:?}", at(), bluez::inspect(&settings.adapter).await);
    match what.as_str() {
        "speak" => {
            let address = bluez::identify(&settings, None).await?;
            let mut air = bluez::speak(settings, address);
            air.health.until_up().await;
            println!("{} up, room {}, sets {}", at(), air.advertiser.room(), air.advertiser.sets());
            for (turn, length) in numbers.iter().enumerate() {
                let length: usize = length.parse()?;
                let frame = FrameBytes::new(&vec![turn as u8; length]);
                println!("{} {length}: {:?}", at(), air.advertiser.advertise(frame));
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            air.advertiser.advertise(None)?;
            println!("{} silent", at());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        _ => {
            let mut air = bluez::listen(settings);
            let seconds: u64 = numbers.first().map_or(Ok(10), |seconds| seconds.parse())?;
            let end = tokio::time::sleep(Duration::from_secs(seconds));
            tokio::pin!(end);
            loop {
                tokio::select! {
                    () = &mut end => break,
                    heard = air.sightings.next() => {
                        let heard = heard.ok_or("the radio is gone")?;
                        let frame = heard.frame.as_slice();
                        let (first, length) = (frame.first(), frame.len());
                        println!("{} {:02x?} {:?} {:?} {first:?} {length}", at(), heard.address.reveal(), heard.address_kind, heard.rssi);
                    }
                }
            }
            println!("{} {:?}", at(), air.health.counts());
        }
    }
    Ok(())
}
