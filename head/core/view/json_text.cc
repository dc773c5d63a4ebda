#include "head/core/view/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text/json_writer.h"

namespace mobula::internal::head {

void JsonText::separate() {
  if (!first_) text_ += ',';
  first_ = false;
}

JsonText& JsonText::open(char bracket) {
  separate();
  text_ += bracket;
  first_ = true;
  return *this;
}

JsonText& JsonText::close(char bracket) {
  text_ += bracket;
  first_ = false;
  return *this;
}

JsonText& JsonText::plain(std::string_view text) {
  separate();
  text_ += text;
  return *this;
}

JsonText& JsonText::key(std::string_view name) {
  separate();
  text_.append(1, '"').append(name).append("\":");
  first_ = true;
  return *this;
}

JsonText& JsonText::value(std::string_view text) {
  separate();
  const bool as_it_is = std::ranges::all_of(
      text, [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  if (as_it_is) {
    text_.append(1, '"').append(text).append(1, '"');
  } else {
    text_ += json_text(nlohmann::json(text));
  }
  return *this;
}

}  // namespace mobula::internal::head
