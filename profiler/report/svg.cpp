// Implements Chart.
#include "profiler/report/svg.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "kernels/base/utf8.h"

namespace hearth {
namespace {

// The margins around the plot, which contain the numbers and titles of the axes.
constexpr double kLeft = 64, kTop = 12, kRight = 28, kBottom = 48;

std::string tip_of(std::string_view tip) {
  return tip.empty() ? std::string() : fmt::format("<title>{}</title>", html_escaped(tip));
}

}  // namespace

std::string html_escaped(std::string_view text) {
  constexpr std::string_view kReplacement = "\uFFFD";
  std::string safe;
  while (!text.empty()) {
    const Utf8Char front = utf8_front(text);
    const char c = text.front();
    if (front.status != Utf8Status::kWhole) {
      safe += kReplacement;  // file names may hold any bytes
    } else if (front.length > 1) {
      safe += text.substr(0, front.length);
    } else if (c == '&') {
      safe += "&amp;";
    } else if (c == '<') {
      safe += "&lt;";
    } else if (c == '>') {
      safe += "&gt;";
    } else if (c == '"') {
      safe += "&quot;";
    } else if (c == '\'') {
      safe += "&#39;";
    } else {
      safe += static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t' ? ' ' : c;
    }
    text.remove_prefix(front.length);
  }
  return safe;
}

std::vector<Tick> percent_ticks() {
  std::vector<Tick> ticks;
  for (int i = 0; i <= 5; ++i) {
    const double at = i / 5.0;
    ticks.push_back({at, i == 0 ? "0" : fmt::format("{:.3g} %", 100 * at)});
  }
  return ticks;
}

Chart::Chart(std::string_view title, double width, double height, Axis x, Axis y, bool grid)
    : width_(width), height_(height), x_(std::move(x)), y_(std::move(y)) {
  const double right = kLeft + width_, bottom = kTop + height_;
  head_ = fmt::format(
      R"(<svg viewBox="0 0 {0:.0f} {1:.0f}" style="max-width:{0:.0f}px" role="img" aria-label="{2}">)",
      right + kRight, bottom + kBottom, html_escaped(title));
  for (const Tick& tick : x_.ticks) {
    const double at = left(tick.at);
    if (grid) head_ += fmt::format(R"(<path class="grid" d="M{:.1f} {:.1f}V{:.1f}"/>)", at, kTop, bottom);
    head_ += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", at, bottom + 18,
                         html_escaped(tick.label));
  }
  for (const Tick& tick : y_.ticks) {
    const double at = top(tick.at);
    if (grid) head_ += fmt::format(R"(<path class="grid" d="M{:.1f} {:.1f}H{:.1f}"/>)", kLeft, at, right);
    head_ += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", kLeft - 8, at + 4,
                         html_escaped(tick.label));
  }
  head_ += fmt::format(R"(<text class="axis" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)",
                       kLeft + width_ / 2, bottom + 40, html_escaped(x_.title));
  head_ += fmt::format(
      R"svg(<text class="axis" transform="translate(14 {:.1f}) rotate(-90)" text-anchor="middle">{}</text>)svg",
      kTop + height_ / 2, html_escaped(y_.title));
}

double Chart::left(double x) const { return kLeft + width_ * (x - x_.begin) / (x_.end - x_.begin); }
double Chart::top(double y) const { return kTop + height_ * (1 - (y - y_.begin) / (y_.end - y_.begin)); }

void Chart::box(double x0, double y0, double x1, double y1, std::string_view css_class,
                std::string_view tip) {
  const auto [l, r] = std::minmax({left(x0), left(x1)});
  const auto [t, b] = std::minmax({top(y0), top(y1)});
  body_ += fmt::format(R"(<rect class="{}" x="{:.2f}" y="{:.2f}" width="{:.2f}" height="{:.2f}">{}</rect>)",
                       css_class, l, t, r - l, b - t, tip_of(tip));
}

void Chart::line(const std::vector<Point>& points, std::string_view css_class) {
  std::string path;
  for (const Point& point : points)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', left(point.x), top(point.y));
  body_ += fmt::format(R"(<path class="{}" d="{}"/>)", css_class, path);
}

void Chart::dot(Point at, std::string_view css_class, std::string_view tip) {
  body_ += fmt::format(R"(<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="4">{}</circle>)", css_class,
                       left(at.x), top(at.y), tip_of(tip));
}

std::string Chart::done() const { return head_ + body_ + "</svg>"; }

}  // namespace hearth
