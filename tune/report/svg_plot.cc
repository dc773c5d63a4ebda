#include "tune/report/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace mobula::internal::tune {
namespace {

constexpr std::size_t classes = 5;
constexpr std::array<std::array<int, 3>, classes> colors{{{0x51, 0x55, 0x85},
                                                          {0x3f, 0x7c, 0xac},
                                                          {0x2f, 0xa8, 0x9c},
                                                          {0x7b, 0xd0, 0x6d},
                                                          {0xf7, 0xe2, 0x5b}}};

// The length of the UTF-8 sequence at `at`; 0 if it is invalid.
std::size_t sequence_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0 && continues(at + 1)) return 2;
  if (first >= 0xe0 && first < 0xf0 && continues(at + 1) && continues(at + 2)) return 3;
  const bool four = first >= 0xf0 && first < 0xf5;
  return four && continues(at + 1) && continues(at + 2) && continues(at + 3) ? 4 : 0;
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string escaped;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sequence_at(text, at);
    const char c = text[at];
    if (length == 0 || static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      escaped += "\xef\xbf\xbd";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '&')
      escaped += "&amp;";
    else if (c == '"')
      escaped += "&quot;";
    else
      escaped += text.substr(at, length);
    at += std::max<std::size_t>(length, 1);
  }
  return escaped;
}

std::string standing_color(double standing) {
  const double at = std::clamp(standing, 0.0, 1.0) * (classes - 1);
  const auto low = std::min<std::size_t>(static_cast<std::size_t>(at), classes - 2);
  const double part = at - static_cast<double>(low);
  std::array<int, 3> mixed{};
  for (std::size_t i = 0; i < 3; ++i) {
    mixed[i] = static_cast<int>(
        std::lround(colors[low][i] + part * (colors[low + 1][i] - colors[low][i])));
  }
  return fmt::format("#{:02x}{:02x}{:02x}", mixed[0], mixed[1], mixed[2]);
}

std::string standing_class(double standing) {
  const auto at = static_cast<std::size_t>(std::clamp(standing, 0.0, 1.0) * classes);
  return fmt::format("s{}", std::min(at, classes - 1));
}

std::string pixels(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

SvgPlot::SvgPlot(PlotFrame frame) : frame_(std::move(frame)) {
  if (!frame_.x_title.empty()) {
    text(frame_.left + inner_width() / 2, frame_.height - 6, frame_.x_title,
         "class=\"title\" text-anchor=\"middle\"");
  }
  if (!frame_.y_title.empty()) {
    const double middle = frame_.top + inner_height() / 2;
    text(14, middle, frame_.y_title,
         fmt::format("class=\"title\" text-anchor=\"middle\" transform=\"rotate(-90 14 {})\"",
                     pixels(middle)));
  }
}

void SvgPlot::draw_x_axis(const PlotAxis& axis, std::size_t ticks) {
  const double base = frame_.top + inner_height();
  for (const auto& [position, words] : axis.ticks(ticks)) {
    const std::string at = pixels(x(position));
    body_ += fmt::format("<path class=\"grid\" d=\"M{0} {1}V{2}\"/>", at, pixels(frame_.top),
                         pixels(base));
    text(x(position), base + 16, words, "text-anchor=\"middle\"");
  }
}

void SvgPlot::draw_y_axis(const PlotAxis& axis, std::size_t ticks) {
  for (const auto& [position, words] : axis.ticks(ticks)) {
    body_ += fmt::format("<path class=\"grid\" d=\"M{} {}H{}\"/>", pixels(frame_.left),
                         pixels(y(position)), pixels(frame_.left + inner_width()));
    text(frame_.left - 8, y(position) + 4, words, "text-anchor=\"end\"");
  }
}

void SvgPlot::line(const std::vector<std::pair<double, double>>& positions,
                   const std::string& attributes) {
  if (positions.empty()) return;
  body_ += "<path " + attributes + " d=\"";
  for (std::size_t i = 0; i < positions.size(); ++i) {
    body_ += fmt::format("{}{} {}", i == 0 ? "M" : "L", pixels(x(positions[i].first)),
                         pixels(y(positions[i].second)));
  }
  body_ += "\"/>";
}

void SvgPlot::dots(const std::vector<std::pair<double, double>>& positions,
                   const std::string& attributes) {
  if (positions.empty()) return;
  body_ += "<path " + attributes + " d=\"";
  for (const auto& [at_x, at_y] : positions) {
    body_ += fmt::format("M{} {}h0", pixels(x(at_x)), pixels(y(at_y)));
  }
  body_ += "\"/>";
}

void SvgPlot::circle(double at_x, double at_y, double radius, const std::string& attributes,
                     const std::string& title) {
  body_ +=
      fmt::format("<circle {} cx=\"{}\" cy=\"{}\" r=\"{}\"><title>{}</title></circle>", attributes,
                  pixels(x(at_x)), pixels(y(at_y)), pixels(radius), html_text(title));
}

void SvgPlot::rectangle(double left, double top, double width, double height,
                        const std::string& attributes, const std::string& title) {
  body_ += fmt::format("<rect {} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", attributes,
                       pixels(left), pixels(top), pixels(width), pixels(height));
  body_ += title.empty() ? "/>" : "><title>" + html_text(title) + "</title></rect>";
}

void SvgPlot::text(double left, double top, const std::string& words,
                   const std::string& attributes) {
  body_ += fmt::format("<text x=\"{}\" y=\"{}\"{}{}>{}</text>", pixels(left), pixels(top),
                       attributes.empty() ? "" : " ", attributes, html_text(words));
}

std::string SvgPlot::svg() const {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\">{}</svg>", pixels(frame_.width),
                     pixels(frame_.height), body_);
}

}  // namespace mobula::internal::tune
