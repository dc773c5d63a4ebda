// One plot as SVG text: a frame with axes, grid lines, and marks in its coordinates.
// Thread: owner. Units: pixels of the view box; positions of marks in 0 to 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tune/report/plot_axis.h"

namespace mobula::internal::tune {

// Text for HTML and SVG, with invalid UTF-8 and control characters replaced.
std::string html_text(std::string_view text);
// "#35c2a5": from the worst (0) to the best (1) trial.
std::string standing_color(double standing);
// The class of a standing: "s0" (worst) to "s4" (best).
std::string standing_class(double standing);

struct PlotFrame {
  double width = 960, height = 300;
  double left = 64, right = 18, top = 14, bottom = 40;
  std::string x_title = {}, y_title = {};
};

class SvgPlot {
 public:
  explicit SvgPlot(PlotFrame frame);

  void draw_x_axis(const PlotAxis& axis, std::size_t ticks = 8);
  void draw_y_axis(const PlotAxis& axis, std::size_t ticks = 5);

  double x(double position) const { return frame_.left + position * inner_width(); }
  double y(double position) const { return frame_.top + (1 - position) * inner_height(); }
  double inner_width() const { return frame_.width - frame_.left - frame_.right; }
  double inner_height() const { return frame_.height - frame_.top - frame_.bottom; }

  // A line through positions. `attributes` such as `class="best"`.
  void line(const std::vector<std::pair<double, double>>& positions, const std::string& attributes);
  // Points of one class as one path, which is small.
  void dots(const std::vector<std::pair<double, double>>& positions, const std::string& attributes);
  void circle(double at_x, double at_y, double radius, const std::string& attributes,
              const std::string& title);
  // In pixels.
  void rectangle(double left, double top, double width, double height,
                 const std::string& attributes, const std::string& title = {});
  void text(double left, double top, const std::string& words, const std::string& attributes = {});
  void append(const std::string& svg) { body_ += svg; }

  std::string svg() const;

 private:
  PlotFrame frame_;
  std::string body_;
};

// A coordinate with one decimal place at most.
std::string pixels(double value);

}  // namespace mobula::internal::tune
