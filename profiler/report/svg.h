// Makes charts as inline SVG. A chart is a frame with axes, into which callers draw in the units of the data.
//
// Colors are CSS classes of the page's style (report_page.cpp), so that charts follow the user's light or
// dark theme.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth {

/// Escapes "<" and the like for HTML.
std::string html_escaped(std::string_view text);

struct Tick {
  double at;  // in the axis's units
  std::string label;
};

/// "0", "20 %" .. "100 %".
std::vector<Tick> percent_ticks();

struct Axis {
  double begin, end;  // the values at the left and right, or bottom and top; begin may exceed end
  std::string title;
  std::vector<Tick> ticks;
};

class Chart {
 public:
  /// Begins a plot of this size in pixels, with axes around it. `title` is the description for screen
  /// readers.
  Chart(std::string_view title, double width, double height, Axis x, Axis y, bool grid = true);

  /// Draws a rectangle between two opposite corners. `tip` is its tooltip.
  void box(double x0, double y0, double x1, double y1, std::string_view css_class, std::string_view tip = {});
  struct Point {
    double x, y;
  };
  void line(const std::vector<Point>& points, std::string_view css_class);
  void dot(Point at, std::string_view css_class, std::string_view tip = {});

  /// Returns the whole <svg> element.
  std::string done() const;

 private:
  double left(double x) const;
  double top(double y) const;

  double width_, height_;
  Axis x_, y_;
  std::string head_, body_;
};

}  // namespace hearth
