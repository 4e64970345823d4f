//! Random programs over every operation, with their inputs.

use infc_codegen_cpu::vir::{BinaryOp, Builder, Cond, Convert, Elem, Function, I64, Memory, Type, UnaryOp, Value};
use infc_ir::math::Table;

/// A small generator of pseudo-random numbers: programs are reproducible from their seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// Bytes of the input buffer and of the output buffer.
pub(crate) const INPUT: usize = 4096;
pub(crate) const OUTPUT: usize = 16384;

/// The input: interesting values of every type one after the other, at every alignment.
pub(crate) fn input(random: &mut Random) -> Vec<u8> {
    const FLOATS: [f32; 16] = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        2.5,
        0.1,
        3.4e38,
        -1e30,
        1e-40,
        -1e-45,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        65504.0,
        2147483648.0,
        -7.75,
    ];
    let mut bytes = Vec::new();
    while bytes.len() < INPUT {
        match random.below(4) {
            0 => bytes.extend(random.pick(&FLOATS).to_le_bytes()),
            1 => bytes.extend(f64::from(random.pick(&FLOATS)).to_le_bytes()),
            2 => bytes.extend(random.next().to_le_bytes()),
            _ => bytes.extend((random.below(300) as i32 - 150).to_le_bytes()),
        }
    }
    bytes.truncate(INPUT);
    bytes
}

const INTS: [Elem; 4] = [Elem::I8, Elem::I16, Elem::I32, Elem::I64];
const NUMBERS: [Elem; 6] = [Elem::I8, Elem::I16, Elem::I32, Elem::I64, Elem::F32, Elem::F64];
const BINARY_INT: [BinaryOp; 10] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Min,
    BinaryOp::Max,
    BinaryOp::MinU,
    BinaryOp::MaxU,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
];
const BINARY_FLOAT: [BinaryOp; 6] =
    [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::Min, BinaryOp::Max];
const UNARY_FLOAT: [UnaryOp; 7] =
    [UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Sqrt, UnaryOp::RoundEven, UnaryOp::Floor, UnaryOp::Ceil, UnaryOp::Trunc];
const CONDS: [Cond; 6] = [Cond::Eq, Cond::Ne, Cond::Lt, Cond::Le, Cond::Gt, Cond::Ge];

/// A program under construction: `(args)` holds the input's and the output's address.
struct Maker<'a> {
    b: Builder,
    random: &'a mut Random,
    input: Value,
    output: Value,
    /// Values in scope that later operations may use.
    values: Vec<Value>,
    /// Where the next result goes.
    cursor: i32,
    lanes: u16,
    fma: bool,
}

/// A random program on vectors of so many lanes. Without `fma` it has no fused operations, which not every target
/// rounds once.
pub(crate) fn program(seed: u64, lanes: u16, size: usize, fma: bool) -> (Function, Vec<u8>) {
    let mut random = Random::new(seed);
    let data = input(&mut random);
    let mut b = Builder::new("random");
    let args = b.param(0);
    let input = b.load(I64, args, 0, Memory::ReadOnly);
    let output = b.load(I64, args, 8, Memory::ReadOnly);
    let mut maker = Maker { b, random: &mut random, input, output, values: Vec::new(), cursor: 0, lanes, fma };
    for elem in NUMBERS {
        let value = maker.load(elem);
        maker.values.push(value);
    }
    for _ in 0..size {
        maker.step(0);
    }
    maker.store_all();
    (maker.b.finish(), data)
}

impl Maker<'_> {
    fn vector(&self, elem: Elem) -> Type {
        Type::vector(elem, self.lanes)
    }

    fn load(&mut self, elem: Elem) -> Value {
        let ty = self.vector(elem);
        let room = INPUT - ty.size_bytes() as usize;
        let disp = self.random.below(room) as i32;
        self.b.load(ty, self.input, disp, Memory::ReadOnly)
    }

    /// A value of a type, one in scope if possible.
    fn any(&mut self, elem: Elem) -> Value {
        let ty = self.vector(elem);
        let known: Vec<Value> = self.values.iter().copied().filter(|&value| self.b.ty(value) == ty).collect();
        if known.is_empty() || self.random.chance(20) {
            if elem == Elem::Mask {
                return self.mask();
            }
            return match self.random.below(5) {
                0 => {
                    let bits = if elem.is_float() {
                        let values = [0.0, 1.0, -2.0, 0.5, 1e10, -0.0];
                        let value = self.random.pick(&values);
                        return self.b.fconst(ty, value);
                    } else {
                        self.random.pick(&[0, 1, 2, 3, 7, 127, 128, 255, u64::MAX, 0x8000, 1 << 31])
                    };
                    self.b.constant(ty, bits)
                }
                1 if ty.lanes > 1 => {
                    let disp = self.random.below(INPUT - 8) as i32;
                    self.b.load_splat(ty, self.input, disp, Memory::ReadOnly)
                }
                2 => {
                    let mask = self.any(Elem::Mask);
                    let disp = self.random.below(INPUT - ty.size_bytes() as usize) as i32;
                    self.b.load_masked(ty, self.input, disp, mask, Memory::ReadOnly)
                }
                _ => self.load(elem),
            };
        }
        self.random.pick(&known)
    }

    fn mask(&mut self) -> Value {
        let ty = self.vector(Elem::Mask);
        match self.random.below(4) {
            0 => {
                let count = self.random.below(usize::from(self.lanes) + 3) as i64 - 1;
                let args = self.b.param(1);
                // A number that folding does not see.
                let count = self.b.iconst(count);
                let count = self.b.add(args, count);
                self.b.first_lanes(count, self.lanes)
            }
            1 => {
                let bits = self.random.next();
                // Half of them are the first lanes, as remainders have them.
                let first = self.random.below(usize::from(self.lanes) + 1);
                let bits =
                    if self.random.chance(50) { bits } else { u64::MAX.checked_shr(64 - first as u32).unwrap_or(0) };
                self.b.constant(ty, bits)
            }
            _ => {
                let elem = self.random.pick(&NUMBERS);
                let (x, y) = (self.any(elem), self.any(elem));
                let cond = match self.random.below(8) {
                    0 if !elem.is_float() => Cond::LtU,
                    1 if !elem.is_float() => Cond::LeU,
                    0 if elem.is_float() => Cond::Ordered,
                    _ => self.random.pick(&CONDS),
                };
                self.b.compare(cond, x, y)
            }
        }
    }

    fn step(&mut self, depth: usize) {
        let value = match self.random.below(16) {
            0..=4 => self.arithmetic(),
            5 => self.shift(),
            6 => self.divide(),
            7..=8 => self.convert(),
            9 => {
                let elem = self.random.pick(&NUMBERS);
                let (mask, x, y) = (self.any(Elem::Mask), self.any(elem), self.any(elem));
                self.b.select(mask, x, y)
            }
            10 => self.mask_work(),
            11 => self.lanes_work(),
            12 => self.gather(),
            13 if depth < 2 => return self.counted_loop(depth),
            14 if depth < 2 => return self.branch(depth),
            _ => return self.store(),
        };
        self.values.push(value);
    }

    fn arithmetic(&mut self) -> Value {
        let elem = self.random.pick(&NUMBERS);
        let x = self.any(elem);
        if elem.is_float() {
            if self.fma && self.random.chance(30) {
                let (y, z) = (self.any(elem), self.any(elem));
                let x = if self.random.chance(20) { self.b.neg(x) } else { x };
                return self.b.fma(x, y, z);
            }
            if elem == Elem::F32 && self.random.chance(8) {
                let table = self.random.pick(&Table::ALL);
                return self.b.unary(UnaryOp::Table(table), x);
            }
            if self.random.chance(30) {
                let op = self.random.pick(&UNARY_FLOAT);
                return self.b.unary(op, x);
            }
            if elem == Elem::F32 && self.lanes <= 16 && self.lanes > 1 && self.random.chance(15) {
                return self.pairs(x);
            }
            let y = self.any(elem);
            let op = self.random.pick(&BINARY_FLOAT);
            return self.b.binary(op, x, y);
        }
        if self.random.chance(20) {
            let op = self.random.pick(&[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Not]);
            return self.b.unary(op, x);
        }
        if elem == Elem::I32 && self.lanes <= 16 && self.lanes > 1 && self.random.chance(30) {
            let bytes = Type::vector(Elem::I8, self.lanes * 4);
            let disp = self.random.below(INPUT - 512) as i32;
            let p = self.b.load(bytes, self.input, disp, Memory::ReadOnly);
            let y = self.any(Elem::I32);
            let q = self.b.bitcast(y, bytes);
            return self.b.dot4(x, p, q);
        }
        let y = self.any(elem);
        let op = self.random.pick(&BINARY_INT);
        self.b.binary(op, x, y)
    }

    /// A dot product of pairs from memory and at hand, whose numbers are none that may or may not count as zero.
    fn pairs(&mut self, sum: Value) -> Value {
        let words = self.vector(Elem::I32);
        let disp = self.random.below(INPUT - 512) as i32;
        let loaded = match self.random.chance(50) {
            true => self.b.load(words, self.input, disp, Memory::ReadOnly),
            false => self.b.load_splat(words, self.input, disp, Memory::ReadOnly),
        };
        let other = self.any(Elem::I32);
        let [a, b] = [loaded, other].map(|word| {
            // Signs and fractions as they come, between 1 and 2.
            let kept = self.b.constant(words, 0x807f_807f);
            let set = self.b.constant(words, 0x3f80_3f80);
            let word = self.b.and(word, kept);
            self.b.or(word, set)
        });
        self.b.dot2_bf16(sum, a, b)
    }

    fn shift(&mut self) -> Value {
        let elem = self.random.pick(&INTS);
        let ty = self.vector(elem);
        let bits = u64::from(elem.size_bytes()) * 8;
        let x = self.any(elem);
        let amount = if self.random.chance(60) {
            let amount = self.random.next() % bits;
            self.b.constant(ty, amount)
        } else {
            let amount = self.any(elem);
            let limit = self.b.constant(ty, bits - 1);
            self.b.and(amount, limit)
        };
        let op = self.random.pick(&[BinaryOp::Shl, BinaryOp::ShrS, BinaryOp::ShrU]);
        self.b.binary(op, x, amount)
    }

    fn divide(&mut self) -> Value {
        let elem = self.random.pick(&INTS);
        let ty = self.vector(elem);
        let x = self.any(elem);
        let divisor = if self.random.chance(50) {
            let divisor = self.random.pick(&[1, 2, 3, 7, 16, 100]);
            self.b.constant(ty, divisor)
        } else {
            let value = self.any(elem);
            let limit = self.b.constant(ty, 63);
            let value = self.b.and(value, limit);
            let one = self.b.constant(ty, 1);
            self.b.or(value, one)
        };
        let op = self.random.pick(&[BinaryOp::Div, BinaryOp::Rem, BinaryOp::DivU, BinaryOp::RemU]);
        self.b.binary(op, x, divisor)
    }

    fn convert(&mut self) -> Value {
        match self.random.below(8) {
            0 | 1 => {
                let (from, to) = (self.random.pick(&INTS), self.random.pick(&INTS));
                let x = self.any(from);
                let kind = match from.size_bytes().cmp(&to.size_bytes()) {
                    std::cmp::Ordering::Less => self.random.pick(&[Convert::SignExtend, Convert::ZeroExtend]),
                    std::cmp::Ordering::Equal => return x,
                    std::cmp::Ordering::Greater => Convert::Truncate,
                };
                self.b.convert(kind, x, to)
            }
            2 => {
                let x = self.pick_any(&[Elem::I32, Elem::I64]);
                let to = self.random.pick(&[Elem::F32, Elem::F64]);
                self.b.convert(Convert::IntToFloat, x, to)
            }
            3 => {
                let x = self.pick_any(&[Elem::F32, Elem::F64]);
                let to = self.random.pick(&[Elem::I32, Elem::I64]);
                let kind = self.random.pick(&[Convert::FloatToInt, Convert::FloatToIntRound]);
                self.b.convert(kind, x, to)
            }
            4 => {
                let half = self.random.pick(&[Elem::F16, Elem::BF16]);
                let disp = self.random.below(INPUT - 512) as i32;
                let x = self.b.load(self.vector(half), self.input, disp, Memory::ReadOnly);
                let to = self.random.pick(&[Elem::F32, Elem::F64]);
                self.b.convert(Convert::Float, x, to)
            }
            5 => {
                let x = self.pick_any(&[Elem::F32, Elem::F64]);
                let half = self.random.pick(&[Elem::F16, Elem::BF16, Elem::F32, Elem::F64]);
                let y = self.b.convert(Convert::Float, x, half);
                match half {
                    Elem::F16 | Elem::BF16 => self.b.convert(Convert::Bitcast, y, Elem::I16),
                    _ => y,
                }
            }
            6 => {
                let pairs = [(Elem::F32, Elem::I32), (Elem::F64, Elem::I64)];
                let (float, int) = self.random.pick(&pairs);
                if self.random.chance(50) {
                    let x = self.any(float);
                    self.b.convert(Convert::Bitcast, x, int)
                } else {
                    let x = self.any(int);
                    self.b.convert(Convert::Bitcast, x, float)
                }
            }
            _ => {
                let mask = self.any(Elem::Mask);
                let to = self.random.pick(&INTS);
                self.b.convert(Convert::MaskToInt, mask, to)
            }
        }
    }

    fn pick_any(&mut self, elems: &[Elem]) -> Value {
        let elem = self.random.pick(elems);
        self.any(elem)
    }

    fn mask_work(&mut self) -> Value {
        let x = self.any(Elem::Mask);
        match self.random.below(3) {
            0 => self.b.not(x),
            1 => {
                let (y, z) = (self.any(Elem::Mask), self.any(Elem::Mask));
                self.b.select(x, y, z)
            }
            _ => {
                let y = self.any(Elem::Mask);
                let op = self.random.pick(&[BinaryOp::And, BinaryOp::Or, BinaryOp::Xor]);
                self.b.binary(op, x, y)
            }
        }
    }

    /// Lanes taken apart: halves and single ones, brought back to the full number by a splat.
    fn lanes_work(&mut self) -> Value {
        let elem = self.random.pick(&[Elem::I8, Elem::I16, Elem::I32, Elem::I64, Elem::F32, Elem::F64, Elem::Mask]);
        let mut x = self.any(elem);
        if self.random.chance(20) {
            let mask = self.any(Elem::Mask);
            let bits = self.b.mask_bits(mask);
            return self.b.splat(bits, self.lanes);
        }
        while self.b.ty(x).lanes > 1 && self.random.chance(50) {
            x = if self.random.chance(50) { self.b.low_half(x) } else { self.b.high_half(x) };
        }
        if elem == Elem::Mask && self.b.ty(x).lanes > 1 && self.random.chance(50) {
            let bits = self.b.mask_bits(x);
            return self.b.splat(bits, self.lanes);
        }
        let lane = self.random.below(usize::from(self.b.ty(x).lanes)) as u16;
        let scalar = self.b.extract(x, lane);
        self.b.splat(scalar, self.lanes)
    }

    fn gather(&mut self) -> Value {
        let elem = self.random.pick(&NUMBERS);
        let index_elem = self.random.pick(&[Elem::I32, Elem::I64]);
        let index = self.any(index_elem);
        let ty = self.vector(index_elem);
        let limit = self.b.constant(ty, 255);
        let index = if self.random.chance(50) {
            self.b.and(index, limit)
        } else {
            // Lanes a known distance apart.
            let stride = self.random.below(255 / usize::from(self.lanes) + 1) as u64;
            let (lane, stride) = (self.b.lane_index(ty), self.b.constant(ty, stride));
            self.b.mul(lane, stride)
        };
        let scale = self.random.pick(&[1, 2, 4, 8]);
        let mask = self.random.chance(50).then(|| self.any(Elem::Mask));
        self.b.gather(elem, self.input, index, scale, 16, mask, Memory::ReadOnly)
    }

    fn counted_loop(&mut self, depth: usize) {
        let elems = [self.random.pick(&NUMBERS), self.random.pick(&NUMBERS)];
        let inits = elems.map(|elem| self.any(elem));
        let end = self.random.below(5) as i64;
        let begin = self.b.param(1);
        let end = self.b.iconst(end);
        // begin is 0 at run time, which the builder does not know.
        let hidden = self.random.chance(70);
        let end = if hidden { self.b.add(begin, end) } else { end };
        let start = self.b.iconst(0);
        let step = self.random.pick(&[1, 1, 2, 3]);
        let (iv, carried) = self.b.loop_open(start, end, step, false, &inits);
        let outer = self.values.len();
        self.values.extend(&carried);
        let stride = self.random.pick(&[1, 3, 4, 8, 24, 40]);
        let stride = self.b.iconst(stride);
        let offset = self.b.mul(iv, stride);
        let at = self.b.add(self.input, offset);
        let ty = self.vector(elems[0]);
        let loaded = self.b.load(ty, at, 32, Memory::ReadOnly);
        self.values.push(loaded);
        if self.lanes > 1 {
            let index = self.b.splat(iv, self.lanes);
            self.values.push(index);
        }
        for _ in 0..self.random.below(6) {
            self.step(depth + 1);
        }
        let yields = elems.map(|elem| self.any(elem));
        self.values.truncate(outer);
        let results = self.b.loop_close(&yields);
        self.values.extend(results);
    }

    fn branch(&mut self, depth: usize) {
        let mask = self.any(Elem::Mask);
        let bits = self.b.mask_bits(mask);
        let limit = self.random.below(1 << self.lanes.min(8)) as i64;
        let limit = self.b.iconst(limit);
        let cond = self.random.pick(&CONDS);
        let cond = self.b.compare(cond, bits, limit);
        let elem = self.random.pick(&NUMBERS);
        let scope = self.values.len();
        self.b.if_open(cond);
        for _ in 0..self.random.below(4) {
            self.step(depth + 1);
        }
        let yielded = self.any(elem);
        self.values.truncate(scope);
        self.b.if_else(&[yielded]);
        for _ in 0..self.random.below(4) {
            self.step(depth + 1);
        }
        let yielded = self.any(elem);
        self.values.truncate(scope);
        let results = self.b.if_close(&[yielded]);
        self.values.extend(results);
    }

    fn store(&mut self) {
        let elem = self.random.pick(&NUMBERS);
        let value = self.any(elem);
        self.store_value(value);
    }

    fn store_value(&mut self, value: Value) {
        let ty = self.b.ty(value);
        let size = ty.size_bytes() as i32;
        if self.cursor + size.max(2100) > OUTPUT as i32 {
            return;
        }
        match self.random.below(8) {
            0 => {
                let mask = self.any(Elem::Mask);
                self.b.store_masked(value, self.output, self.cursor, mask);
                self.cursor += size;
            }
            1 => {
                let elem = self.random.pick(&[Elem::I32, Elem::I64]);
                let index = self.any(elem);
                let index_ty = self.vector(elem);
                let limit = self.b.constant(index_ty, 31);
                let index = self.b.and(index, limit);
                let mask = self.random.chance(50).then(|| self.any(Elem::Mask));
                self.b.scatter(value, self.output, index, 8, self.cursor, mask);
                self.cursor += 256 + 8;
            }
            _ => {
                self.b.store(value, self.output, self.cursor);
                self.cursor += size;
            }
        }
    }

    /// Makes the last values count.
    fn store_all(&mut self) {
        let all = std::mem::take(&mut self.values);
        for value in all.into_iter().rev().take(24) {
            if self.b.ty(value).elem == Elem::Mask {
                let numbers = self.b.convert(Convert::MaskToInt, value, Elem::I32);
                self.store_value(numbers);
            } else {
                self.store_value(value);
            }
        }
    }
}
