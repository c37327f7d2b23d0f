//! `--svg`: tokens per second against the context, and above it what a plain read of the same bytes would give.

use std::path::Path;

use plotters::prelude::*;

use super::decode::Depth;
use crate::exit::{Code, Failure};

const SIZE: (u32, u32) = (800, 480);

/// Writes the drawing.
pub fn write(path: &Path, depths: &[Depth], title: &str, subtitle: &str) -> Result<(), Failure> {
    let svg = draw(depths, title, subtitle)
        .map_err(|error| Failure::new(Code::Other, format!("cannot draw {}: {error}", path.display())))?;
    std::fs::write(path, svg)
        .map_err(|error| Failure::new(Code::Other, format!("cannot write {}: {error}", path.display())))
}

fn draw(depths: &[Depth], title: &str, subtitle: &str) -> Result<String, Box<dyn std::error::Error>> {
    let limit = |depth: &Depth| depth.read_gb_s * 1e9 / depth.bytes_per_token;
    let measured: Vec<(f64, f64)> = depths.iter().map(|depth| (depth.context as f64, depth.tok_s)).collect();
    let limits: Vec<(f64, f64)> = depths.iter().map(|depth| (depth.context as f64, limit(depth))).collect();
    let right = measured.iter().map(|point| point.0).fold(1.0, f64::max);
    let top = measured.iter().chain(&limits).map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let text = |size: u32| ("sans-serif", size).into_font().color(&BLACK);
        area.draw(&Text::new(title, (16, 12), text(20)))?;
        area.draw(&Text::new(subtitle, (16, 38), text(13)))?;
        let mut chart = ChartBuilder::on(&area)
            .margin_top(64)
            .margin_right(24)
            .margin_bottom(8)
            .margin_left(8)
            .x_label_area_size(44)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..right, 0.0..top * 1.25)?;
        chart
            .configure_mesh()
            .x_desc("context, tokens")
            .y_desc("decoded tokens per second")
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| if top < 20.0 { format!("{y:.1}") } else { format!("{y:.0}") })
            .light_line_style(WHITE)
            .draw()?;
        let grey = RGBColor(130, 130, 130);
        chart
            .draw_series(DashedLineSeries::new(limits, 6, 4, grey.stroke_width(2)))?
            .label("a plain read of the same bytes")
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], grey.stroke_width(2)));
        let blue = RGBColor(30, 90, 170);
        chart
            .draw_series(LineSeries::new(measured, blue.stroke_width(2)).point_size(4))?
            .label("measured")
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], blue.stroke_width(2)));
        chart
            .configure_series_labels()
            // Speed falls with the context, so this corner is empty.
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE)
            .border_style(grey)
            .draw()?;
        area.present()?;
    }
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(context: usize, tok_s: f64) -> Depth {
        Depth { context, tok_s, bytes_per_token: 5e8, gb_s: tok_s / 2.0, read_gb_s: 20.0, read_share: 0.5 }
    }

    #[test]
    fn every_depth_is_a_point_with_its_labels() {
        let depths = [depth(0, 30.0), depth(1024, 28.0), depth(8192, 20.0)];
        let svg = draw(&depths, "a model (SYNTHETIC weights)", "two threads").unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert_eq!(svg.matches("<circle").count(), 3, "{svg}");
        for words in ["SYNTHETIC", "two threads", "context, tokens", "decoded tokens per second", "measured"]
        {
            assert!(svg.contains(words), "{words}");
        }
        assert_eq!(svg, draw(&depths, "a model (SYNTHETIC weights)", "two threads").unwrap());
    }

    #[test]
    fn one_depth_can_be_drawn_too() {
        assert!(draw(&[depth(0, 0.5)], "", "").unwrap().contains("<circle"));
    }
}
