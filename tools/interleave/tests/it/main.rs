//! Models of what threads and processes share, in every order.

mod hand_over;
mod pool;
