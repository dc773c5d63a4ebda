#include "device/detection/accelerator_names.h"

#include <algorithm>
#include <cctype>
#include <regex>

namespace mobula::internal {
namespace {

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Replaces each run of blanks by one dash.
std::string dashed(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (!is_blank(c)) {
      result += c;
    } else if (!result.empty() && result.back() != '-') {
      result += '-';
    }
  }
  while (!result.empty() && result.back() == '-') result.pop_back();
  return result;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (!is_blank(c) && c != '-') {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

bool all_digits(std::string_view text) { return std::ranges::all_of(text, is_digit); }

// True for words about marketing or form factor, which do not identify the product. Some occur in
// capitals.
bool is_placeholder(std::string_view word) {
  const std::string plain = lower(word);
  for (const std::string_view empty : {"nvidia", "tesla", "geforce", "generation", "pcie", "gpu"}) {
    if (plain == empty) return true;
  }
  if (plain.starts_with("sxm")) return all_digits(plain.substr(3));
  if (!plain.starts_with("hbm")) return false;
  std::string rest = plain.substr(3);
  if (!rest.empty() && is_digit(rest.front())) rest.erase(0, 1);
  return rest.empty() || rest == "e";
}

// Returns the digits of "80GB".
std::string gigabytes_in(std::string_view word) {
  if (word.size() < 3 || !word.ends_with("GB")) return {};
  const std::string_view digits = word.substr(0, word.size() - 2);
  return all_digits(digits) ? std::string(digits) : std::string();
}

// Removes "MIG 1g.5gb" from the end of `product` and returns the profile.
std::string cut_mig_profile(std::string_view& product) {
  static constexpr std::string_view mark = " MIG ";
  const auto at = product.rfind(mark);
  if (at == std::string_view::npos) return {};
  std::string profile = dashed(product.substr(at + mark.size()));
  product = product.substr(0, at);
  return profile;
}

}  // namespace

std::string ray_accelerator_name(std::string_view product) {
  // From Ray, _private/accelerators/nvidia_gpu.py: a vendor word, capitals, then a model number.
  static const std::regex model(R"(\w+\s+((?:[A-Z]+\s+)*[A-Z0-9]*\d[A-Z0-9]*))");
  const std::string text(product);
  std::smatch match;
  if (std::regex_search(text, match, model, std::regex_constants::match_continuous) &&
      match[1].length() > 1) {
    return dashed(match[1].str());
  }
  static constexpr std::string_view vendor = "NVIDIA ";
  if (product.starts_with(vendor)) product.remove_prefix(vendor.size());
  return dashed(product);
}

std::string precise_accelerator_name(std::string_view product) {
  const std::string profile = cut_mig_profile(product);
  std::string name;
  std::string gigabytes;
  for (const std::string& word : words_of(product)) {
    if (is_placeholder(word)) continue;
    if (const std::string found = gigabytes_in(word); !found.empty()) {
      gigabytes = found;
      continue;
    }
    name += (name.empty() ? "" : "-") + word;
  }
  if (name.empty()) return {};
  if (!gigabytes.empty()) name += "-" + gigabytes + "G";
  if (!profile.empty()) name += "-MIG-" + profile;
  return name;
}

std::vector<std::string> accelerator_types_of(std::string_view product) {
  std::vector<std::string> types;
  for (std::string name : {ray_accelerator_name(product), precise_accelerator_name(product)}) {
    if (!name.empty() && std::ranges::find(types, name) == types.end()) {
      types.push_back(std::move(name));
    }
  }
  return types;
}

}  // namespace mobula::internal
