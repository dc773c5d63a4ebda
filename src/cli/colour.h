// Colours on terminals: few, and each means something. States that are well are green, those that wait or change
// yellow, those that are lost red; headers are bold. Tables and messages have them, what programs read never does.
// Main thread; what decides and paints is pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace mobula::internal::cli {

enum class ColourChoice { automatic, always, never };
enum class Paint { bold, good, waiting, bad };

std::optional<ColourChoice> colour_choice_of(std::string_view text);  // "auto", "always", "never"

// The terminal and its environment, as far as they decide: https://no-color.org, and TERM=dumb shows none.
struct ColourPlace {
  bool terminal = false;
  const char* no_color = nullptr;
  const char* term = nullptr;
};
bool wants_colours(ColourChoice choice, const ColourPlace& place);
// Of what is written to this descriptor of this process.
bool wants_colours(ColourChoice choice, int fd);

std::string painted(std::string_view text, Paint paint);
// What a state, a severity or a result is worth; nothing where it is neither good nor bad.
std::optional<Paint> paint_of(std::string_view state);
// In its colour, where it has one and colours are wanted.
std::string painted_state(std::string_view state, bool coloured);

// Bytes at the beginning of `text` that set a colour and take no room; 0: none.
std::size_t colour_at(std::string_view text);
// The first `columns` characters, and the end of colours that were begun in them.
std::string cut_to_width(std::string_view line, std::size_t columns);

// What messages on stderr of this process have, from now on.
void choose_message_colours(ColourChoice choice);
// "mobula:", of an error and of a warning.
std::string error_label();
std::string warning_label();

}  // namespace mobula::internal::cli
