// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! shelf: a table of orders by number, and a list of their labels; nothing is ever removed from either.
//! Each round also makes strings that are dropped at once.
use std::collections::HashMap;
use std::thread::sleep;
use std::time::Duration;

struct Order {
    customer: String,
    lines: Vec<String>,
}

#[inline(never)]
// planted: begin
fn read_order(number: u64) -> Order {
    Order {
        customer: format!("customer number {:012} of the northern branch", number),
        lines: (0..4).map(|line| format!("line {} of order {:012}", line, number)).collect(),
    }
}

#[inline(never)]
fn print_label(labels: &mut Vec<Box<[u8; 200]>>, number: u64) {
    labels.push(Box::new([number as u8; 200]));
}

#[inline(never)]
fn keep_order(orders: &mut HashMap<u64, Order>, number: u64) {
    orders.insert(number, read_order(number));
}
// planted: end

#[inline(never)]
fn total_length(order: &Order) -> usize {
    order.lines.join(", ").len() + order.customer.to_uppercase().len()
}

fn main() {
    let mut orders: HashMap<u64, Order> = HashMap::new();
    let mut labels: Vec<Box<[u8; 200]>> = Vec::new();
    let mut length = 0;
    for number in 0.. {
        keep_order(&mut orders, number);
        print_label(&mut labels, number);
        length += total_length(&orders[&number]);
        sleep(Duration::from_millis(10));
        if length == 0 {
            break;
        }
    }
}
