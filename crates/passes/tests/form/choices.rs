//! Choices of formation: whatever is answered, plans compute the same.

use crate::attention::attend;
use crate::build::{Net, assert_close, noise};
use crate::run::check_with;
use crate::shape::conv;
use infc_ir::graph::Graph;
use infc_ir::interp::run_graph;
use infc_ir::scalar::BinaryOp;
use infc_passes::form::{Answers, Choice, FormOptions, Interpreter, Way, form};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An answer to one question.
#[derive(Debug)]
struct One(String, Way);

impl Answers for One {
    fn way(&self, question: &str) -> Option<Way> {
        (question == self.0).then_some(self.1)
    }
}

fn answering(question: &str, way: Way) -> FormOptions {
    FormOptions { answers: Some(Arc::new(One(question.to_owned(), way))), ..FormOptions::default() }
}

fn choices(net: &Net, options: &FormOptions) -> Vec<Choice> {
    form(&net.graph, options).expect("well formed").log.choices
}

fn listed(net: &Net) -> Vec<Choice> {
    choices(net, &FormOptions { lists_choices: true, ..FormOptions::default() })
}

/// A network with a residual: a convolution that can be filtered, a product, and their sum.
fn residual() -> Net {
    let mut net = Net::new();
    let x = net.input(&[1, 8, 6, 7]);
    let a = conv(&mut net, x, 24, 1, 1, 1);
    let b = conv(&mut net, a, 24, 3, 1, 3);
    let sum = net.binary(BinaryOp::Add, a, b);
    let c = conv(&mut net, sum, 16, 1, 1, 5);
    net.output(c);
    net
}

/// Branches that are concatenated along their channels, one of them seen through a view, and read by a convolution.
fn branches() -> Net {
    let mut net = Net::new();
    let x = net.input(&[1, 8, 6, 8]);
    let a = conv(&mut net, x, 8, 1, 1, 1);
    let b = conv(&mut net, x, 16, 3, 1, 3);
    let b = net.transpose(b, &[0, 1, 3, 2]);
    let b = net.with_number(BinaryOp::Mul, b, 0.5);
    let b = net.transpose(b, &[0, 1, 3, 2]);
    let joined = net.concat(&[a, b], 1);
    let y = conv(&mut net, joined, 8, 3, 1, 5);
    net.output(y);
    net
}

/// Attention of so many rows, and a softmax of what is computed.
fn attention(rows: i64) -> Net {
    let mut net = Net::new();
    let y = attend(&mut net, [1, rows, 11, 2, 8], true);
    let scaled = net.with_number(BinaryOp::Mul, y, 0.5);
    let z = net.softmax(scaled, 3);
    net.output(z);
    net.optimize();
    net
}

/// Every way of every choice: the plan says that it was taken, most make another plan, and all compute the same.
#[test]
fn all_ways_compute_the_same() {
    let mut kinds = BTreeSet::new();
    for net in [residual(), branches(), attention(9), attention(3)] {
        let usual = form(&net.graph, &FormOptions::default()).expect("well formed").to_string();
        let (mut tried, mut others) = (0, 0);
        for choice in listed(&net) {
            assert!(choice.ways.contains(&choice.taken) && choice.answer.is_none(), "{choice:?}");
            kinds.insert(choice.kind().to_owned());
            for &way in &choice.ways {
                let plan = check_with(&net, &answering(&choice.question, way));
                let [made] = &plan.log.choices[..] else { panic!("{way} of {choice:?}: {:?}", plan.log.choices) };
                assert_eq!((made.taken, made.answer, &made.question), (way, Some(way), &choice.question));
                let is_usual = plan.to_string() == usual;
                assert!(is_usual || way != choice.taken, "{way} is what is taken anyway: {choice:?}");
                (tried, others) = (tried + usize::from(way != choice.taken), others + usize::from(!is_usual));
            }
        }
        assert!(others > 2 && others * 2 > tried, "{others} of {tried} answers change the plan");
    }
    let expected = ["attention", "correlation", "fusion", "layout"];
    assert_eq!(kinds, expected.map(str::to_owned).into());
}

/// Plans for any number of points, none included.
#[test]
fn all_ways_of_symbolic_plans_compute_the_same() {
    let text = "graph @g(%x: f32[B, 6], %w: f32[6, 9], %v: f32[9, 6]) -> (y: %8) where B in 0..=100 {
      %0 = contract [b k, k n -> n b] %x, %w : f32[9, B]
      %1 = view [i, j -> j, i] %0 : f32[B, 9]
      %2 = map [a -> max(a, 0)] %1 : f32[B, 9]
      %3 = contract [b k, k n -> b n] %2, %v : f32[B, 6]
      %4 = map [a, b -> a + b] %3, %x : f32[B, 6]
      %5 = reduce [1] fold max [a -> a] %4 : f32[B]
      %6 = view [i, j -> i] %5 : f32[B, 6]
      %7 = map [a, b -> a - b] %4, %6 : f32[B, 6]
      %8 = concat 1 %7, %4 : f32[B, 12]
    }";
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let choices = form(&graph, &FormOptions { lists_choices: true, ..FormOptions::default() });
    let choices = choices.expect("well formed").log.choices;
    assert!(choices.len() > 2, "{choices:?}");
    for choice in choices {
        for &way in &choice.ways {
            let plan = form(&graph, &answering(&choice.question, way)).expect("well formed");
            assert_eq!(plan.log.choices[0].taken, way);
            for points in [0, 1, 7] {
                let inputs = [noise(&[points, 6], 1), noise(&[6, 9], 2), noise(&[9, 6], 3)];
                let symbols = [points as i64];
                let expected = run_graph(&graph, &symbols, &inputs).expect("it runs");
                let found = Interpreter::new(&plan, &symbols, &inputs).run().unwrap_or_else(|e| panic!("{e}\n{plan}"));
                assert_close(&expected, &found);
            }
        }
    }
}

/// The same question has the same text wherever it stands, and nothing is written down unless somebody asks.
#[test]
fn questions_do_not_depend_on_where_they_stand() {
    let net = residual();
    assert_eq!(choices(&net, &FormOptions::default()), []);
    // One more layer in front: the others ask what they asked.
    let mut longer = Net::new();
    let x = longer.input(&[1, 3, 6, 7]);
    let x = conv(&mut longer, x, 8, 1, 1, 9);
    // Other weights.
    let a = conv(&mut longer, x, 24, 1, 1, 11);
    let b = conv(&mut longer, a, 24, 3, 1, 13);
    let sum = longer.binary(BinaryOp::Add, a, b);
    let c = conv(&mut longer, sum, 16, 1, 1, 15);
    longer.output(c);
    let questions = |net: &Net| listed(net).into_iter().map(|choice| choice.question).collect::<BTreeSet<String>>();
    let (few, more) = (questions(&net), questions(&longer));
    // What the output of the model is asked of is not asked of a value.
    let again = few.intersection(&more).count();
    assert!(again + 1 >= few.len() && more.len() > again, "{again} of {}", few.len());
}

#[test]
fn answers_that_are_no_way_are_not_taken() {
    let net = residual();
    let usual = form(&net.graph, &FormOptions::default()).expect("well formed").to_string();
    for choice in listed(&net) {
        let other = if choice.kind() == "layout" { Way::Apart } else { Way::Innermost(200) };
        let plan = form(&net.graph, &answering(&choice.question, other)).expect("well formed");
        assert_eq!(plan.to_string(), usual);
        assert_eq!(plan.log.choices.len(), 1);
        assert_eq!((plan.log.choices[0].taken, plan.log.choices[0].answer), (choice.taken, Some(other)));
    }
}

/// What measuring has settled is paid for first, and not taken where constants may not grow by so much.
#[test]
fn settled_filters_are_within_the_limit_on_constants() {
    let mut net = Net::new();
    let x = net.input(&[1, 16, 14, 14]);
    let x = conv(&mut net, x, 256, 1, 1, 7);
    let y = conv(&mut net, x, 256, 3, 1, 1);
    let z = conv(&mut net, y, 16, 1, 1, 3);
    net.output(z);
    let correlation = |options: &FormOptions| {
        let mut found = choices(&net, options);
        found.retain(|choice| choice.kind() == "correlation");
        found.pop().expect("it is one")
    };
    let wide = FormOptions { lists_choices: true, max_weight_growth: 8.0, ..FormOptions::default() };
    let choice = correlation(&wide);
    assert_eq!(choice.ways, [Way::Direct, Way::Filtered(2), Way::Filtered(4)]);
    for max_weight_growth in [8.0, 1.0] {
        for &way in &choice.ways {
            let options = FormOptions { max_weight_growth, ..answering(&choice.question, way) };
            // It is reported in any case.
            let fits = max_weight_growth > 1.0 || way == Way::Direct;
            let taken = if fits { way } else { Way::Direct };
            assert_eq!(correlation(&options).taken, taken, "{way} within {max_weight_growth}");
        }
    }
}
