//! Tables: rows that are held until there are no more, then shown in columns.

use super::inline::Inline;
use super::style::{Look, Styled, visible};

/// Shows rows in columns where they are a table that fits into `width`. Says whether they were.
pub fn show(rows: &[String], width: usize, out: &mut Styled) -> bool {
    let cells: Vec<Vec<&str>> = rows.iter().map(|row| cells(row)).collect();
    if cells.len() < 2 || !cells[1].iter().all(|cell| is_ruler(cell)) {
        return false;
    }
    let shown: Vec<Vec<Styled>> = cells.iter().enumerate().map(|(row, cells)| styled(row, cells)).collect();
    let columns = cells.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| {
        let cells =
            shown.iter().enumerate().filter(|(row, _)| *row != 1).filter_map(|(_, row)| row.get(column));
        cells.map(|cell| visible(&cell.text)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    if widths.iter().sum::<usize>() + 3 * columns.saturating_sub(1) > width {
        return false;
    }
    for (row, line) in shown.iter().enumerate() {
        if row == 1 {
            let rules: Vec<String> = widths.iter().map(|width| "\u{2500}".repeat(*width)).collect();
            out.put(&rules.join("\u{2500}\u{253c}\u{2500}"), Look::DIM);
        } else {
            aligned(line, &widths, &cells[1], out);
        }
        out.end_line();
    }
    true
}

fn aligned(line: &[Styled], widths: &[usize], rulers: &[&str], out: &mut Styled) {
    for (column, width) in widths.iter().enumerate() {
        if column > 0 {
            out.put(" \u{2502} ", Look::DIM);
        }
        let text = line.get(column).map_or("", |cell| &cell.text);
        let gap = " ".repeat(width.saturating_sub(visible(text)));
        let ruler = rulers.get(column).copied().unwrap_or_default();
        let to_the_right = ruler.ends_with(':') && !ruler.starts_with(':');
        let (before, behind) = if to_the_right { (gap.as_str(), "") } else { ("", gap.as_str()) };
        out.put(before, Look::PLAIN);
        out.plain();
        out.text.push_str(text);
        // No spaces at the end of a line.
        if column + 1 < widths.len() {
            out.put(behind, Look::PLAIN);
        }
    }
}

/// Cells of a row: between its bars, an escaped bar not being one.
fn cells(row: &str) -> Vec<&str> {
    let row = row.trim();
    let row = row.strip_prefix('|').unwrap_or(row);
    let row = row.strip_suffix('|').filter(|row| !row.ends_with('\\')).unwrap_or(row);
    let mut cells = Vec::new();
    let mut from = 0;
    for (at, _) in row.match_indices('|') {
        if !row[..at].ends_with('\\') {
            cells.push(row[from..at].trim());
            from = at + 1;
        }
    }
    cells.push(row[from..].trim());
    cells
}

/// Whether a cell stands below a heading: dashes, with colons for the side.
fn is_ruler(cell: &str) -> bool {
    let dashes = cell.strip_prefix(':').unwrap_or(cell);
    let dashes = dashes.strip_suffix(':').unwrap_or(dashes);
    !dashes.is_empty() && dashes.chars().all(|c| c == '-')
}

fn styled(row: usize, cells: &[&str]) -> Vec<Styled> {
    let look = if row == 0 { Look::BOLD } else { Look::PLAIN };
    let style = |cell: &&str| {
        let mut styled = Styled::default();
        Inline { before: ' ', all: true }.show(cell, look, &mut styled);
        styled.plain();
        styled
    };
    cells.iter().map(style).collect()
}
