// Colors of terminal output: good states green, waiting or changing states yellow, lost states red,
// headers bold. Human-readable tables and messages have them; formats for programs never do.
// Thread: main; functions that choose and paint are pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mobula::internal::cli {

enum class ColorChoice { automatic, always, never };
enum class Paint { bold, good, waiting, bad };

// "auto", "always", or "never".
std::optional<ColorChoice> color_choice_of(std::string_view text);

// The terminal and environment that decide: https://no-color.org, and TERM=dumb.
struct ColorContext {
  bool terminal = false;
  const char* no_color = nullptr;
  const char* term = nullptr;
};
bool wants_colors(ColorChoice choice, const ColorContext& context);
// Reports whether output to this descriptor gets colors.
bool wants_colors(ColorChoice choice, int fd);

std::string painted(std::string_view text, Paint paint);
// Returns the color of a state, a severity, or a result; nothing if it is neutral.
std::optional<Paint> paint_of(std::string_view state);
// Returns the state in its color, if it has one and `colored` is set.
std::string painted_state(std::string_view state, bool colored);

// Returns the size in bytes of a color sequence at the beginning of `text`; 0 without a sequence.
std::size_t color_at(std::string_view text);
// Returns the first `columns` characters, and the end of colors that begin in them.
std::string cut_to_width(std::string_view line, std::size_t columns);

// Sets the colors of messages on stderr of this process.
void choose_message_colors(ColorChoice choice);
// Returns "mobula:" for an error.
std::string error_label();
std::string warning_label();

}  // namespace mobula::internal::cli
