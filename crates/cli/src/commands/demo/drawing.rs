//! Images as characters.

use crate::digits::{MOST_INK, SIDE};

/// From no ink to all.
const UNICODE: [char; 5] = [' ', '░', '▒', '▓', '█'];
const ASCII: [char; 5] = [' ', '.', ':', 'o', '#'];

/// Characters per row: a pixel is two wide, about square on a terminal.
pub(super) const WIDTH: usize = 2 * SIDE;
/// Between images.
pub(super) const GAP: &str = "   ";

/// The lines that show images beside each other.
pub(super) fn side_by_side(images: &[&[u8]]) -> Vec<String> {
    let shades = if unicode_terminal() { UNICODE } else { ASCII };
    (0..SIDE).map(|row| images.iter().map(|image| line(image, row, shades)).collect::<Vec<_>>().join(GAP)).collect()
}

fn line(image: &[u8], row: usize, shades: [char; 5]) -> String {
    let pixels = &image[row * SIDE..][..SIDE];
    pixels.iter().map(|&ink| shade(ink, shades)).flat_map(|shade| [shade, shade]).collect()
}

fn shade(ink: u8, shades: [char; 5]) -> char {
    let steps = shades.len() - 1;
    shades[(usize::from(ink) * steps).div_ceil(MOST_INK.into()).min(steps)]
}

/// Whether the user's locale says that characters beyond ASCII can be shown.
fn unicode_terminal() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(std::env::var_os).find(|v| !v.is_empty());
    cfg!(windows)
        || locale.is_some_and(|locale| {
            let locale = locale.to_string_lossy().to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_from_none_to_all() {
        assert_eq!([0, 1, 4, 5, 12, 13, 16].map(|ink| shade(ink, ASCII)), [' ', '.', '.', ':', 'o', '#', '#']);
    }

    #[test]
    fn lines_of_equal_width() {
        let image = [MOST_INK; SIDE * SIDE];
        let lines = side_by_side(&[&image, &image]);
        assert_eq!(lines.len(), SIDE);
        assert!(lines.iter().all(|line| line.chars().count() == 2 * WIDTH + GAP.len()));
    }
}
