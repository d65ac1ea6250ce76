//! Durable puts per second: one after the other, and from 64 clients at once, in the same run on the same disk.
//!
//! `cargo run --release -p repository-svc --example durable_puts [DIRECTORY]`

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pilot_core::evidence::DeviceName;
use repository_svc::store::{PolicyStore, Statement, Version};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const CLIENTS: u64 = 64;
const STATEMENT_BYTES: usize = 400;
const SPAN: Duration = Duration::from_secs(4);

/// Puts a client's versions until the time is over; returns how many.
async fn put_for(store: Arc<PolicyStore>, client: u64) -> Result<u64, Failure> {
    let device = DeviceName::new(&format!("client-{client}"))?;
    let first = store.statement(&device)?.map_or(1, |stored| stored.version().0 + 1);
    let end = Instant::now() + SPAN;
    let mut version = first;
    while Instant::now() < end {
        store.put(device.clone(), Statement::new(Version(version), &[7; STATEMENT_BYTES])?).await?;
        version += 1;
    }
    Ok(version - first)
}

/// Appends and syncs until the time is over; returns how often.
fn sync_for(path: PathBuf) -> Result<u64, Failure> {
    let mut file = File::create(&path)?;
    let end = Instant::now() + SPAN;
    let mut count = 0;
    while Instant::now() < end {
        file.write_all(&[7; STATEMENT_BYTES])?;
        file.sync_data()?;
        count += 1;
    }
    std::fs::remove_file(path)?;
    Ok(count)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let directory = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    let path = directory.join(format!("durable-puts-{}", std::process::id()));
    let per_second = |count: u64| count as f64 / SPAN.as_secs_f64();

    let plain = per_second(sync_for(path.clone())?);
    println!("append and fdatasync, one by one: {plain:8.0} /s");
    let store = Arc::new(PolicyStore::open(&path)?);
    let single = per_second(put_for(store.clone(), 0).await?);
    println!("durable puts, 1 client:           {single:8.0} /s");
    let before = store.commits().syncs();
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(put_for(store.clone(), client));
    }
    let mut count = 0;
    while let Some(done) = clients.join_next().await {
        count += done??;
    }
    let many = per_second(count);
    let group = count as f64 / (store.commits().syncs() - before) as f64;
    println!("durable puts, {CLIENTS} clients:         {many:8.0} /s, {group:.1} per sync");
    println!("{:.1} x the plain syncs, {:.1} x one client", many / plain, many / single);
    drop(store);
    std::fs::remove_dir_all(path)?;
    Ok(())
}
