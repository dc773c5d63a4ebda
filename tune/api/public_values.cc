// Values, configurations, and domains of the public interface.
#include <cmath>
#include <memory>
#include <ostream>
#include <utility>

#include <mobula/errors.h>
#include <mobula/tune/config.h>
#include <mobula/tune/space.h>

#include "tune/api/core_values.h"

namespace mobula::tune {
namespace {

const char* kind_of(const Value::Data& data) {
  constexpr const char* kinds[] = {"a boolean", "an integer", "a number", "a text"};
  return kinds[data.index()];
}

[[noreturn]] void refuse_kind(const Value& value, const char* expected) {
  internal::tune::refuse_tune(
      "value", internal::tune::to_string(internal::tune::core_value(value)) + " is " +
                   kind_of(value.data()) + ", expected " + expected);
}

Domain made(internal::tune::Domain domain) {
  return Domain(
      std::make_shared<const detail::DomainRules>(detail::DomainRules{std::move(domain)}));
}

std::vector<internal::tune::Value> core_list(const std::vector<Value>& values) {
  std::vector<internal::tune::Value> list;
  list.reserve(values.size());
  for (const Value& value : values) list.push_back(internal::tune::core_value(value));
  return list;
}

}  // namespace

double Value::number() const {
  if (const auto* number = std::get_if<double>(&data_)) return *number;
  if (const auto* integer = std::get_if<std::int64_t>(&data_)) return static_cast<double>(*integer);
  refuse_kind(*this, "a number");
}

std::int64_t Value::integer() const {
  if (const auto* integer = std::get_if<std::int64_t>(&data_)) return *integer;
  if (const auto* number = std::get_if<double>(&data_))
    if (std::abs(*number) < 9007199254740992.0 && std::trunc(*number) == *number)
      return static_cast<std::int64_t>(*number);
  refuse_kind(*this, "an integer");
}

bool Value::truth() const {
  if (const auto* truth = std::get_if<bool>(&data_)) return *truth;
  refuse_kind(*this, "a boolean");
}

const std::string& Value::text() const {
  if (const auto* text = std::get_if<std::string>(&data_)) return *text;
  refuse_kind(*this, "a text");
}

bool operator==(const Value& a, const Value& b) {
  return internal::tune::core_value(a) == internal::tune::core_value(b);
}

std::ostream& operator<<(std::ostream& out, const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value.data())) return out << *text;
  return out << internal::tune::to_string(internal::tune::core_value(value));
}

Config::Config(std::initializer_list<Entry> entries) {
  for (const Entry& entry : entries) set(entry.first, entry.second);
}

const Value& Config::at(const std::string& name) const {
  for (const Entry& entry : entries_)
    if (entry.first == name) return entry.second;
  std::string names;
  for (const Entry& entry : entries_) names += (names.empty() ? "" : ", ") + entry.first;
  internal::tune::refuse_tune(name, "no such parameter; the configuration has: " +
                                        (names.empty() ? "no parameters" : names));
}

double Config::number(const std::string& name) const { return at(name).number(); }
std::int64_t Config::integer(const std::string& name) const { return at(name).integer(); }
bool Config::truth(const std::string& name) const { return at(name).truth(); }
std::string Config::text(const std::string& name) const { return at(name).text(); }

bool Config::has(const std::string& name) const {
  for (const Entry& entry : entries_)
    if (entry.first == name) return true;
  return false;
}

void Config::set(const std::string& name, Value value) {
  for (Entry& entry : entries_) {
    if (entry.first != name) continue;
    entry.second = std::move(value);
    return;
  }
  entries_.emplace_back(name, std::move(value));
}

std::ostream& operator<<(std::ostream& out, const Config& config) {
  out << "{";
  const char* separator = "";
  for (const auto& [name, value] : config) {
    out << separator << name << ": " << value;
    separator = ", ";
  }
  return out << "}";
}

Domain Domain::when(const std::string& parameter, const Value& equals) const {
  return made(rules_->domain.when(parameter, internal::tune::core_value(equals)));
}

Domain uniform(double low, double high) { return made(internal::tune::uniform(low, high)); }
Domain quniform(double low, double high, double q) {
  return made(internal::tune::quniform(low, high, q));
}
Domain loguniform(double low, double high) { return made(internal::tune::loguniform(low, high)); }
Domain qloguniform(double low, double high, double q) {
  return made(internal::tune::qloguniform(low, high, q));
}
Domain randn(double mean, double sd) { return made(internal::tune::randn(mean, sd)); }
Domain qrandn(double mean, double sd, double q) {
  return made(internal::tune::qrandn(mean, sd, q));
}
Domain randint(std::int64_t low, std::int64_t high) {
  return made(internal::tune::randint(low, high));
}
Domain qrandint(std::int64_t low, std::int64_t high, std::int64_t q) {
  return made(internal::tune::qrandint(low, high, q));
}
Domain lograndint(std::int64_t low, std::int64_t high) {
  return made(internal::tune::lograndint(low, high));
}
Domain qlograndint(std::int64_t low, std::int64_t high, std::int64_t q) {
  return made(internal::tune::qlograndint(low, high, q));
}
Domain choice(std::vector<Value> values) { return made(internal::tune::choice(core_list(values))); }
Domain ordered(std::vector<Value> values) {
  return made(internal::tune::ordered(core_list(values)));
}
Domain grid_search(std::vector<Value> values) {
  return made(internal::tune::grid_search(core_list(values)));
}
Domain sample_from(std::function<Value(const Config&)> draw) {
  return made(
      internal::tune::sample_from([draw = std::move(draw)](const internal::tune::Config& config) {
        return internal::tune::core_value(draw(internal::tune::api_config(config)));
      }));
}
Domain constant(Value value) {
  return made(internal::tune::constant(internal::tune::core_value(value)));
}

}  // namespace mobula::tune

namespace mobula {

void Serializer<tune::Value>::write(Writer& out, const tune::Value& value) {
  out.write(value.data());
}

tune::Value Serializer<tune::Value>::read(Reader& in) {
  auto data = in.read<tune::Value::Data>();
  return std::visit([](auto& each) { return tune::Value(std::move(each)); }, data);
}

void Serializer<tune::Config>::write(Writer& out, const tune::Config& config) {
  out.write(std::vector<tune::Config::Entry>(config.begin(), config.end()));
}

tune::Config Serializer<tune::Config>::read(Reader& in) {
  tune::Config config;
  for (auto& [name, value] : in.read<std::vector<tune::Config::Entry>>())
    config.set(name, std::move(value));
  return config;
}

}  // namespace mobula
