//! Einsum: products, sums, diagonals, ellipses, broadcasting.

use super::{Case, floats};

fn case(equation: &str, shapes: &[&[usize]]) -> Case {
    let case = Case::new("Einsum", 12).text("equation", equation);
    shapes.iter().fold(case, |case, shape| case.data(floats(shape)))
}

#[test]
fn one_operand() {
    for equation in ["ij->ji", "ij->i", "ij->", "ij", "ji", "i j -> j"] {
        case(equation, &[&[3, 4]]).dynamic(&[0, 1]).agrees();
    }
    for equation in ["ii->i", "ii", "ii->"] {
        case(equation, &[&[3, 3]]).dynamic(&[0, 1]).agrees();
    }
    case("b...->...b", &[&[2, 3, 4]]).dynamic(&[0, 1, 2]).agrees();
}

#[test]
fn two_operands() {
    case("ij,jk->ik", &[&[3, 4], &[4, 2]]).dynamic(&[0, 1]).agrees();
    case("ij,jk", &[&[3, 4], &[4, 2]]).agrees();
    case("i,i->", &[&[5], &[5]]).dynamic(&[0]).agrees();
    case("i,j->ij", &[&[5], &[3]]).dynamic(&[0]).agrees();
    case("bhqd,bhkd->bhqk", &[&[2, 3, 4, 5], &[2, 3, 6, 5]]).dynamic(&[0, 2]).agrees();
    case("ijk,jil->kl", &[&[2, 3, 4], &[3, 2, 5]]).agrees();
    case("ij,ij->ij", &[&[2, 3], &[2, 3]]).agrees();
    case("ij,ik->", &[&[2, 3], &[2, 4]]).agrees();
    case("...ij,...jk->...ik", &[&[2, 3, 4], &[4, 5]]).dynamic(&[0]).agrees();
    case("...ij,...jk", &[&[2, 1, 3, 4], &[3, 4, 5]]).agrees();
    case("ij,jk->ik", &[&[3, 1], &[4, 2]]).agrees();
}

#[test]
fn more_operands() {
    case("ij,jk,kl->il", &[&[2, 3], &[3, 4], &[4, 5]]).dynamic(&[0]).agrees();
    case("i,ij,j->", &[&[2], &[2, 3], &[3]]).agrees();
    case("a,b,a->ab", &[&[2], &[3], &[2]]).agrees();
}
