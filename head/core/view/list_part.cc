#include "head/core/view/list_part.h"

#include <cctype>
#include <nlohmann/json.hpp>

namespace mobula::internal::head {
namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

Failure bad_part() {
  return failure(ErrorCode::invalid_argument,
                 "list: a part has a limit of 1 to 1000 rows and a text to find");
}

}  // namespace

Result<ListPart> list_part(const std::string& argument) {
  const auto json = nlohmann::json::parse(argument, nullptr, false);
  if (!json.is_object()) return bad_part();
  ListPart part;
  const auto limit = json.find("limit");
  if (limit == json.end() || !limit->is_number_unsigned()) return bad_part();
  part.limit = limit->get<std::size_t>();
  if (part.limit == 0 || part.limit > ListPart::max_rows) return bad_part();
  const auto find = json.find("find");
  if (find == json.end()) return part;
  if (!find->is_string()) return bad_part();
  part.find = find->get<std::string>();
  std::ranges::transform(part.find, part.find.begin(), lower);
  return part;
}

int urgency(std::string_view state) {
  if (state == "DEAD" || state == "FAILED" || state == "STOPPED" || state == "LOST") return 0;
  if (state == "RESTARTING" || state == "DRAINING" || state == "SUSPECT" || state == "RESCHEDULING")
    return 1;
  return state.starts_with("PENDING") ? 2 : 3;
}

bool contains(std::string_view text, std::string_view find) {
  const auto same = [](char a, char b) { return lower(a) == b; };
  return std::search(text.begin(), text.end(), find.begin(), find.end(), same) != text.end() ||
         find.empty();
}

}  // namespace mobula::internal::head
