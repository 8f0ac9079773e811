// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A Rust program that counts what it allocates, by an allocator of its own; it obeys as workload.h says.
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{stdin, BufRead};
use std::sync::atomic::{AtomicUsize, Ordering};

static LIVE: AtomicUsize = AtomicUsize::new(0);

struct Counting;

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = System.alloc(layout);
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        System.dealloc(block, layout);
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[inline(never)]
fn fill_index(index: &mut Vec<Box<[u8; 700]>>) {
    for i in 0..50 {
        index.push(Box::new([i; 700]));
    }
}

#[inline(never)]
fn fill_names(names: &mut Vec<String>) {
    for i in 0..50 {
        names.push(format!("{:0>300}", i));
    }
}

fn main() {
    let mut index = Vec::with_capacity(50);
    let mut names = Vec::with_capacity(50);

    println!("{{\"ready\": {}}}", std::process::id());
    for line in stdin().lock().lines() {
        if line.unwrap() != "go" {
            break;
        }
        fill_index(&mut index);
        fill_names(&mut names);
        println!("{{\"done\": {}}}", LIVE.load(Ordering::Relaxed));
    }
}
