//! What is wrong with text is said with line and column; nothing panics or takes forever.

use infc_ir::graph::Graph;
use infc_ir::kernel::Kernel;
use infc_ir::schedule::Schedule;

fn kernel_error(text: &str) -> String {
    text.parse::<Kernel>().expect_err("does not parse").to_string()
}

fn graph_error(text: &str) -> String {
    text.parse::<Graph>().expect_err("does not parse").to_string()
}

#[test]
fn kernel_errors_say_where_and_what() {
    for (text, expected) in [
        ("", "1:1: expected kernel, found the end"),
        ("kernel @k(x: f33[2]) {}", "1:14: `f33` is not a known element type"),
        ("kernel @k(x: f32[N]) {}", "1:18: `N` is not a known axis or symbol"),
        ("kernel @k(x: f32[2],\n x: f32[2]) {}", "2:2: `x` is already defined"),
        (
            "kernel @k() {\n  stage s[i] = f32(1)\n}",
            "2:12: expected `:` and an extent, as no earlier stage has this axis, found `]`",
        ),
        (
            "kernel @k() {\n  stage s[i: 4] = 1\n}",
            "2:19: the type of this number is unknown; write for example `f32(1)`",
        ),
        ("kernel @k() {\n  stage s[i: 4] = y[i]\n}", "2:19: `y` is not a known operand or stage"),
        ("kernel @k(x: u8[4]) { stage s[i: 4] = x[i] + 256 }", "1:46: `256` is not a value of type u8"),
        ("kernel @k(x: f32[4]) { stage s[i: 4] = frob(x[i]) }", "1:40: `frob` is not a known function"),
        ("kernel @k(x: f32[4]) { stage s[i: 4] = max(x[i]) }", "1:40: expected 2 arguments, found 1"),
        (
            "kernel @k(x: f32[4]) { stage s[i: 4] = x[div(i, 0)] }",
            "1:42: division of an index by a constant that is not positive",
        ),
        ("kernel @k(x: f32[4]) { stage s[i: 4] = x.1[i] }", "1:40: `x.1` is not a known component"),
        ("kernel @k(x: f32[99999999999999999999]) {}", "1:18: the number `99999999999999999999` does not fit 64 bits"),
        ("kernel @k(x: f32[4]) { stage s[i: 4] = x[i] if 0 <= i else 0 }", "1:55: expected `<`, found `else`"),
        ("kernel @\"k", "1:9: this text does not end"),
        ("kernel @k() { output y[] = s[] }", "1:22: `y` is not a known output operand"),
        (
            "kernel @k() -> (y: f32[2]) { stage s[i: 2] = f32(1) output y[i] = s[i] onto y }",
            "1:77: `y` is not a known input",
        ),
    ] {
        assert_eq!(kernel_error(text), expected, "{text}");
    }
}

#[test]
fn graph_errors_say_where_and_what() {
    for (text, expected) in [
        ("graph @g() -> (y: %0) {}", "1:19: `%0` is not a known value"),
        ("graph @g(%x: f32[2]) -> () { %0 = frob %x : f32[2] }", "1:35: `frob` is not a known operation"),
        ("graph @g(%x: f32[2]) -> () { %0 = map [a, b -> a] %x : f32[2] }", "1:40: expected 1 parameters, found 2"),
        ("graph @g(%x: f32[2]) -> () { %0 = concat 0 %x }", "1:47: expected `:` and a type, found `}`"),
        ("graph @g() -> () { %0 = const \"w\" : f32[99] = #\"00\" }", "1:47: `00` is not a known constant"),
        ("graph @g() -> () { %0 = const \"w\" : f32[2] = [1] }", "1:46: expected 2 elements, found 1"),
        ("graph @g() -> () { %0 = const \"w\" : f32[1] = [1] %0 = dim 1 : i64[] }", "1:50: `%0` is already defined"),
    ] {
        assert_eq!(graph_error(text), expected, "{text}");
    }
}

#[test]
fn schedules_print_and_parse_back() {
    let text = "join o.y, x -> r; part s.n by 8 -> g, u; rfactor s.k by 4 -> p, q; pad s.k to 16; round s load 0; cache s load 1 -> t; single r -> n; online by 64; split o.c by 16 -> co, ci; reorder o: co, r, ci; inline e; compute m at o.r; store m in register; \
        vectorize o.ci; unroll \"a b\".\"in\"; partial s.c; skip s.r; scatter s.n; tensorize s.k to dot4; tensorize s.j to dot2; tensorize s.i to mma16; stream t by 2; prefetch o during e; fetch x during m.c by 16; \
        parallel o: r; bind o.r to block.x";
    let schedule: Schedule = text.parse().expect("parses");
    assert_eq!(schedule.steps.len(), 26);
    assert_eq!(schedule.to_string(), text);
    let error = "split o.c by 16 -> co".parse::<Schedule>().expect_err("no inner loop");
    assert_eq!(error.to_string(), "1:22: expected `,`, found the end");
    let error = "store m in cupboard".parse::<Schedule>().expect_err("no such scope");
    assert_eq!(error.to_string(), "1:12: `cupboard` is not a known memory scope");
}

#[test]
fn hostile_text_is_refused_quickly() {
    let deep = |open: &str, close: &str, n: usize| {
        format!("kernel @k(x: f32[4]) {{ stage s[i: 4] = {}x[i]{} }}", open.repeat(n), close.repeat(n))
    };
    assert!(kernel_error(&deep("(", ")", 100_000)).contains("levels of nesting"));
    assert!(kernel_error(&deep("-", "", 100_000)).contains("levels of nesting"));
    assert!(kernel_error(&deep("", " + x[i]", 100_000)).contains("operations in a row"));
    let index = format!("kernel @k(x: f32[{}4{}]) {{}}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(kernel_error(&index).contains("levels of nesting"));
    // (a + b + c)^40 would have hundreds of terms per axis.
    let product = vec!["(A + B + C)"; 40].join("*");
    let power = format!("kernel @k(x: f32[{product}]) where A in 1.., B in 1.., C in 1.. {{}}");
    assert!(kernel_error(&power).contains("in an index"));
    let mut lets = String::from("let v0 = x[i];");
    for n in 1..6000 {
        lets.push_str(&format!("let v{n} = v{} + {n};", n - 1));
    }
    let long = format!("kernel @k(x: f32[4]) {{ stage s[i: 4] = {lets} v5999 }}");
    assert!(kernel_error(&long).contains("operations in one body"));
    let nested = "%0 = composite gelu : f32[] = graph @b() -> () { ".repeat(10_000);
    assert!(graph_error(&format!("graph @g() -> () {{ {nested}")).contains("levels of nesting"));
}

#[test]
fn truncated_and_mangled_text_never_panics() {
    let kernel =
        "kernel @k(x: f32[N] layout(order [0], halo [1:1]), const w: u8[4]) -> (y: f32[N]) where N in 1..=9, K = 4 {
        stage a[i: N, reduce k: K] = fold (m: f32 = -inf) with (e) => let t = max(m, e); t over x[i] * f32(w[{w[k]}*2])
        stage o[i] = a[i] if 0 <= i < N else 1.5e3
        output y[i] = o[i]
    }";
    kernel.parse::<Kernel>().expect("parses as a whole");
    let graph = "graph @g(%x: f32[N]) -> (y: %1) where N in 1.. {
        %0 = view [i -> i if 0 <= i < N else 0] %x : f32[N] from \"a\"
        %1 = reduce [0] fold sum [a -> a % 2] %0 : f32[]
    }";
    graph.parse::<Graph>().expect("parses as a whole");
    for text in [kernel, graph] {
        for end in 0..text.len() {
            let _ = text[..end].parse::<Kernel>();
            let _ = text[..end].parse::<Graph>();
            for insert in ["(", "]", "}", "0x", "\"", "%", ":", ",", "-", "if", "9223372036854775808"] {
                let mangled = format!("{}{insert}{}", &text[..end], &text[end..]);
                let _ = mangled.parse::<Kernel>();
                let _ = mangled.parse::<Graph>();
            }
        }
    }
}
