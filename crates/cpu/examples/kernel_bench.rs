//! Speed of every kernel: `cargo run --release -p rawloop-cpu --example kernel_bench [FILTER] [TABLE] [ROUNDS]`.
//!
//! Figures of a shared machine mean little by themselves, so every reading from memory stands beside a plain read made just
//! before and just after it, and `share` is the median of those ratios. Readings from the second-level cache are the best
//! of many short ones: one core's ceiling. GB/s counts weight bytes, GMAC/s products of a code and an activation.

use std::hint::black_box;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rawloop_cpu::kernels::{
    Activations, AttentionState, Best, Block, BlockMut, HeadInput, Kernels, KvRows, Shared, Tiles,
};
use rawloop_cpu::team::Team;
use rawloop_spec::{Bits, contract, tile};

const COLUMNS: usize = 1536;
const CACHED: usize = 384 << 10;
const MEMORY: usize = 192 << 20;
const WIDTHS: [(Bits, &str); 3] = [(Bits::Two, "i2"), (Bits::Four, "i4"), (Bits::Eight, "i8")];

struct Bench {
    table: &'static Kernels,
    team: Team,
    rounds: usize,
    filter: String,
    bytes: Vec<u8>,
    codes: Vec<i8>,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let filter = arguments.next().unwrap_or_default();
    let name = arguments.next().unwrap_or_default();
    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(15);
    let mut noise = 1u64;
    let mut next = || {
        noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        noise >> 24
    };
    let bytes: Vec<u64> = (0..MEMORY / 8).map(|_| next()).collect();
    let bytes: Vec<u8> = bytes.iter().flat_map(|word| word.to_le_bytes()).collect();
    let codes: Vec<i8> = (0..1 << 20).map(|_| next() as i8).collect();
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let team = Team::new(threads).expect("threads");
    println!("{threads} threads on memory, 1 in the cache, {rounds} rounds, {COLUMNS} columns unless said");
    let tables = Kernels::available().into_iter().filter(|table| name.is_empty() || table.name() == name);
    let mut bench = Bench { table: Kernels::detect(), team, rounds, filter, bytes, codes };
    for table in tables {
        bench.table = table;
        println!("\n{}", table.name());
        bench.one_token();
        bench.several_tokens();
        bench.head();
        bench.projection();
        bench.attention();
        bench.rows();
    }
    bench.joins();
}

/// Seconds of one call, the best of many short series.
fn best(rounds: usize, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    call();
    let repeats = (4e-4 / start.elapsed().as_secs_f64().max(1e-9)).clamp(1.0, 1e5) as usize;
    (0..rounds * 8)
        .map(|_| {
            let start = Instant::now();
            (0..repeats).for_each(|_| call());
            start.elapsed().as_secs_f64() / repeats as f64
        })
        .fold(f64::INFINITY, f64::min)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

impl Bench {
    fn wants(&self, name: &str) -> bool {
        name.contains(&self.filter)
    }

    fn sum(codes: &[i8]) -> i32 {
        codes.iter().map(|&code| code as i32).sum()
    }

    /// GB/s of all threads together: best, median, and the median share of a plain read.
    fn on_memory(&mut self, bytes: usize, mut call: impl FnMut(&mut Team, &[u8])) -> (f64, f64, f64) {
        let table = self.table;
        let data = &self.bytes[..bytes];
        let team = &mut self.team;
        let read = |team: &mut Team| {
            let start = Instant::now();
            team.run(bytes >> 20, &|_, chunk| {
                black_box(table.read(&data[chunk << 20..(chunk + 1) << 20]));
            });
            (bytes >> 20 << 20) as f64 / start.elapsed().as_secs_f64()
        };
        let (mut speeds, mut shares) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let before = read(team);
            let start = Instant::now();
            call(team, data);
            let speed = bytes as f64 / start.elapsed().as_secs_f64();
            let after = read(team);
            speeds.push(speed / 1e9);
            shares.push(speed / ((before + after) / 2.0));
        }
        (speeds.iter().copied().fold(0.0, f64::max), median(speeds), median(shares))
    }

    fn one_token(&mut self) {
        let table = self.table;
        if self.wants("read") {
            let cached = best(self.rounds, || {
                black_box(table.read(&self.bytes[..CACHED]));
            });
            let memory = self.on_memory(MEMORY, |team, data| {
                team.run(MEMORY >> 20, &|_, chunk| {
                    black_box(table.read(&data[chunk << 20..(chunk + 1) << 20]));
                });
            });
            report("read", CACHED as f64 / cached / 1e9, None, Some(memory));
        }
        for (bits, name) in WIDTHS {
            for columns in [COLUMNS, 12_288] {
                let name = format!("matvec_{name} {columns}");
                if !self.wants(&name) {
                    continue;
                }
                let tile_bytes = tile::tile_bytes(bits, columns);
                let height = tile::rows(bits);
                let count = CACHED / tile_bytes;
                let x = self.codes[..columns].to_vec();
                let sum = Self::sum(&x);
                let weights = Tiles::new(bits, count * height, columns, &self.bytes[..count * tile_bytes])
                    .expect("tiles");
                let mut out = vec![0; count * height];
                let seconds = best(self.rounds, || table.matvec(weights, 0..count, &x, sum, &mut out));
                let cached = (count * tile_bytes) as f64 / seconds / 1e9;
                let count = MEMORY / tile_bytes;
                let per_chunk = (256 << 10) / tile_bytes + 1;
                let mut out = vec![0; count * height];
                let memory = self.on_memory(count * tile_bytes, |team, data| {
                    let weights = Tiles::new(bits, count * height, columns, data).expect("tiles");
                    let out = Shared::new(&mut out);
                    team.run(count.div_ceil(per_chunk), &|_, chunk| {
                        let tiles = chunk * per_chunk..((chunk + 1) * per_chunk).min(count);
                        // SAFETY: chunks are disjoint.
                        let out = unsafe { out.range(tiles.start * height..tiles.end * height) };
                        table.matvec(weights, tiles, &x, sum, out);
                    });
                });
                report(&name, cached, Some(cached * 8.0 / bits.width() as f64), Some(memory));
            }
        }
    }

    fn several_tokens(&mut self) {
        let table = self.table;
        for (bits, name) in WIDTHS {
            // The last case is a prefill: weights and activations larger than the second-level cache, tile after tile.
            for (tokens, size) in [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 64, 256]
                .map(|n| (n, CACHED))
                .into_iter()
                .chain([(512, 4 << 20)])
            {
                let name = format!("matmul_{name} x{tokens}");
                if !self.wants(&name) {
                    continue;
                }
                let count = size / tile::tile_bytes(bits, COLUMNS);
                let height = tile::rows(bits);
                let rows = count * height;
                let weights = &self.bytes[..count * tile::tile_bytes(bits, COLUMNS)];
                let weights = Tiles::new(bits, rows, COLUMNS, weights).expect("tiles");
                let sums: Vec<i32> = self.codes.chunks_exact(COLUMNS).take(tokens).map(Self::sum).collect();
                let x = Activations::new(&self.codes, COLUMNS, COLUMNS, &sums);
                let mut out = vec![0; tokens * rows];
                let seconds = if size == CACHED {
                    best(self.rounds, || {
                        table.matmul(weights, 0..count, x, BlockMut::new(&mut out, tokens, rows, rows));
                    })
                } else {
                    // The median tile, since a whole pass is longer than a time slice of a busy machine.
                    let times = (0..count).map(|tile| {
                        let mut out = BlockMut::new(&mut out, tokens, rows, rows);
                        let out = out.columns_mut(tile * height..(tile + 1) * height);
                        let start = Instant::now();
                        table.matmul(weights, tile..tile + 1, x, out);
                        start.elapsed().as_secs_f64()
                    });
                    median(times.collect()) * count as f64
                };
                let macs = (tokens * rows * COLUMNS) as f64;
                let speed = macs / seconds / 1e9;
                println!(
                    "  {name:<22} {speed:>7.1} GMAC/s, {:>7.2} us a token",
                    seconds * 1e6 / tokens as f64
                );
            }
        }
    }

    fn head(&mut self) {
        let table = self.table;
        for tokens in [1, 2, 4] {
            for greedy in [false, true] {
                let name = format!("head{} x{tokens}", if greedy { "_best" } else { "" });
                if !self.wants(&name) {
                    continue;
                }
                let tile_bytes = tile::tile_bytes(Bits::Two, COLUMNS);
                let h: Vec<f32> =
                    self.codes[..tokens * COLUMNS].iter().map(|&code| code as f32 * 0.013).collect();
                let mut input = HeadInput::default();
                table.head_input(Block::new(&h, tokens, COLUMNS, COLUMNS), &mut input);
                let all = MEMORY / 2 / tile_bytes;
                let scales = vec![0.01f32; all * 64];
                let mut out = vec![0f32; tokens * all * 64];
                let mut go = |data: &[u8], tiles: std::ops::Range<usize>, first: usize| {
                    let weights = Tiles::new(Bits::Two, first * 64, COLUMNS, &data[..first * tile_bytes])
                        .expect("tiles");
                    if greedy {
                        let mut best = [Best::NONE; 8];
                        table.head_best(weights, tiles, &input, &scales[..first * 64], &mut best[..tokens]);
                        black_box(best);
                    } else {
                        let out = BlockMut::new(&mut out, tokens, tiles.len() * 64, tiles.len() * 64);
                        table.head(weights, tiles, &input, &scales[..first * 64], out);
                    }
                };
                let count = CACHED / tile_bytes;
                let seconds = best(self.rounds, || go(&self.bytes, 0..count, count));
                let cached = (count * tile_bytes) as f64 / seconds / 1e9;
                let memory = self.on_memory(all * tile_bytes, |team, data| {
                    let weights = Tiles::new(Bits::Two, all * 64, COLUMNS, data).expect("tiles");
                    let shared = Shared::new(&mut out);
                    team.run(all.div_ceil(32), &|_, chunk| {
                        let tiles = chunk * 32..((chunk + 1) * 32).min(all);
                        if greedy {
                            let mut best = [Best::NONE; 8];
                            table.head_best(weights, tiles, &input, &scales, &mut best[..tokens]);
                            black_box(best);
                        } else {
                            let rows = tiles.len() * 64;
                            // SAFETY: chunks are disjoint.
                            let out = unsafe { shared.block(tiles.start * 64, tokens, rows, all * 64) };
                            table.head(weights, tiles, &input, &scales, out);
                        }
                    });
                });
                report(&name, cached, None, Some(memory));
            }
        }
    }

    fn projection(&mut self) {
        let table = self.table;
        for tokens in [1, 2, 4, 8] {
            let name = format!("project x{tokens}");
            if !self.wants(&name) {
                continue;
            }
            let rows = 96;
            let weights: Vec<u16> =
                self.codes[..rows * COLUMNS].iter().map(|&code| code as u16 & 0x3fff).collect();
            let x: Vec<f32> = self.codes[..tokens * COLUMNS].iter().map(|&code| code as f32).collect();
            let mut out = vec![0f32; tokens * rows];
            let seconds = best(self.rounds, || {
                let x = Block::new(&x, tokens, COLUMNS, COLUMNS);
                table.project(&weights, x, 0.02, BlockMut::new(&mut out, tokens, rows, rows));
            });
            let bytes = (rows * COLUMNS * 2) as f64;
            report(&name, bytes / seconds / 1e9, Some(bytes / 2.0 * tokens as f64 / seconds / 1e9), None);
        }
    }

    fn attention(&mut self) {
        let table = self.table;
        for (heads, dim) in [(8, 256), (8, 512), (4, 256)] {
            for format in ["f16", "f32", "i8"] {
                let name = format!("attention {heads} x {dim} {format}");
                if !self.wants(&name) {
                    continue;
                }
                let positions = 512;
                let values: Vec<f32> =
                    self.codes[..positions * dim].iter().map(|&code| code as f32 * 0.01).collect();
                let halves: Vec<u16> = values.iter().map(|&value| contract::f32_to_f16(value)).collect();
                let scales = vec![0.01; positions];
                let rows = match format {
                    "f16" => KvRows::F16(&halves),
                    "f32" => KvRows::F32(&values),
                    _ => KvRows::I8 { codes: &self.codes[..positions * dim], scales: &scales },
                };
                let q: Vec<f32> = values[..heads * dim].iter().map(|value| value * 0.1).collect();
                let (mut state, mut scratch) = (AttentionState::default(), AttentionState::default());
                let mut out = vec![0.0; heads * dim];
                let seconds = best(self.rounds, || {
                    state.reset(heads, dim);
                    for block in 0..positions / 64 {
                        let rows = rows.rows(dim, block * 64, 64);
                        table.attend(&q, rows, rows, &mut scratch, &mut state);
                    }
                    table.attention_output(&state, &mut out);
                });
                let products = (2 * positions * heads * dim) as f64;
                println!(
                    "  {name:<22} {:>7.1} GFMA/s, {:>7.2} us for {positions} keys",
                    products / seconds / 1e9,
                    seconds * 1e6
                );
            }
        }
    }

    fn rows(&mut self) {
        let table = self.table;
        let rounds = self.rounds;
        let n = 6144;
        let (a, b) = (&self.codes[..n], &self.codes[n..2 * n]);
        let x: Vec<f32> = a.iter().map(|&code| code as f32 * 0.37).collect();
        let acc: Vec<i32> = a.iter().map(|&code| code as i32 * 977).collect();
        let gelu = contract::gelu_table(0.05);
        let (mut codes, mut floats, mut halves) = (vec![0i8; n], vec![0f32; n], vec![0u16; n]);
        let show =
            |name: &str, seconds: f64| println!("  {name:<22} {:>7.2} elements/ns", n as f64 / seconds / 1e9);
        if self.wants("rows") {
            show(
                "quantise",
                best(rounds, || {
                    black_box(table.quantise(&x, 0.3, &mut codes));
                }),
            );
            show(
                "requantise",
                best(rounds, || {
                    table.requantise(Block::row_of(&acc), &x, 0.3, BlockMut::row_of(&mut codes));
                }),
            );
            show(
                "gate_codes",
                best(rounds, || {
                    black_box(table.gate_codes(a, &gelu, b, 0.1, 0.2, &mut codes));
                }),
            );
            show(
                "gate_values",
                best(rounds, || {
                    black_box(table.gate_values(a, &gelu, &x, 0.2, &mut codes));
                }),
            );
            show("norm_codes", best(rounds, || table.norm_codes(a, 0.1, Some(&x), &mut floats)));
            show("norm_codes_add", best(rounds, || table.norm_codes_add(a, 0.1, Some(&x), 0.5, &mut floats)));
            show("norm", best(rounds, || table.norm(&x, Some(&x), &mut floats)));
            show(
                "norm_quantise",
                best(rounds, || {
                    black_box(table.norm_quantise(&x, Some(&x), 0.1, &mut codes));
                }),
            );
            show("add_scaled", best(rounds, || table.add_scaled(&mut floats, &x, 0.5)));
            show(
                "expand_row i4",
                best(rounds, || {
                    table.expand_row(&self.bytes[..n / 2], Bits::Four, 0.1, 0.5, &mut floats);
                }),
            );
            show("rope", best(rounds, || table.rope(&mut floats, 256, &x[..128], &x[..128])));
            show("store_f16", best(rounds, || table.store_f16(&x, &mut halves)));
            show(
                "store_i8",
                best(rounds, || {
                    black_box(table.store_i8(&x, &mut codes));
                }),
            );
        }
    }

    /// What a run costs over the work itself. With no work the caller is done before anybody else comes; with 20 us a
    /// thread, both have to come and the caller has to see the other leave.
    fn joins(&mut self) {
        if !self.wants("join") {
            return;
        }
        let count = AtomicI32::new(0);
        let empty = best(self.rounds * 4, || {
            self.team.run(8, &|_, _| {
                count.fetch_add(1, Ordering::Relaxed);
            });
        });
        let work = Duration::from_micros(20);
        let threads = self.team.threads();
        let mut over: Vec<f64> = (0..self.rounds * 200)
            .map(|_| {
                let start = Instant::now();
                self.team.run(threads, &|_, _| {
                    let start = Instant::now();
                    while start.elapsed() < work {
                        std::hint::spin_loop();
                    }
                });
                (start.elapsed() - work).as_secs_f64() * 1e6
            })
            .collect();
        over.sort_by(f64::total_cmp);
        let quartile = over[over.len() / 4];
        println!(
            "\njoin: {:.2} us empty; over 20 us of work a thread: {:.2} us best, {quartile:.2} us lower quartile",
            empty * 1e6,
            over[0]
        );
    }
}

fn report(name: &str, cached: f64, macs: Option<f64>, memory: Option<(f64, f64, f64)>) {
    print!("  {name:<22} {cached:>7.1} GB/s cached");
    if let Some(macs) = macs {
        print!(", {macs:>6.1} GMAC/s");
    }
    if let Some((best, median, share)) = memory {
        print!(" | memory {best:>5.1} best, {median:>5.1} median, share {share:.2}");
    }
    println!();
}
