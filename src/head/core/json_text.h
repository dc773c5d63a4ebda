// JSON written as it is said, for lists of thousands of rows: to build a document first and to print it then takes
// the head ten times as long, in which it does nothing else. The text is the one that Json prints of the same
// members. Checks nothing: who writes opens, names and closes in the right order. Not thread-safe.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "base/id.h"

namespace mobula::internal::head {

class JsonText {
 public:
  JsonText& open_object() { return open('{'); }
  JsonText& close_object() { return close('}'); }
  JsonText& open_array() { return open('['); }
  JsonText& close_array() { return close(']'); }
  // Of the member whose value comes next. Names are ours: nothing in them needs escaping.
  JsonText& key(std::string_view name);

  // What is no UTF-8 in it is replaced.
  JsonText& value(std::string_view text);
  JsonText& value(const std::string& text) { return value(std::string_view(text)); }
  JsonText& value(const char* text) { return value(std::string_view(text)); }
  JsonText& value(bool is) { return plain(is ? "true" : "false"); }
  JsonText& value(std::integral auto number) { return plain(std::to_string(number)); }
  // null where it is empty.
  template <class Tag>
  JsonText& value(const Id<Tag>& id) {
    return id.empty() ? plain("null") : plain('"' + id.hex() + '"');
  }
  JsonText& null() { return plain("null"); }

  template <class Value>
  JsonText& member(std::string_view name, const Value& of) {
    return key(name).value(of);
  }

  std::string take() { return std::move(text_); }

 private:
  JsonText& open(char bracket);
  JsonText& close(char bracket);
  JsonText& plain(std::string_view text);
  void separate();

  std::string text_;
  bool first_ = true;  // of what is open, or the value of a member
};

}  // namespace mobula::internal::head
