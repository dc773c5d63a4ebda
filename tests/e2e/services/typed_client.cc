// Calls functions of another program by name, with the types of this one:
//   typed_client JOB_NAME
#include <mobula/function.h>
#include <mobula/mobula.h>

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

namespace {

// Equal to the types of the service except for their names.
struct Part {
  std::int32_t count = 0;
  std::string name;
  bool operator==(const Part&) const = default;
};
using Bytes = std::vector<std::byte>;
struct Whole {
  Part inner;
  std::vector<Part> more;
  std::optional<double> weight;
  std::map<std::string, Bytes> parts;
  bool operator==(const Whole&) const = default;
};
using IntRef = mobula::ObjectRef<std::int64_t>;
struct Lot {
  std::string name;
  std::vector<IntRef> refs;
  std::map<std::string, std::optional<IntRef>> more;
};
struct Item {
  std::string name;
  mobula::Tensor elements;
  IntRef ref;
  Bytes bytes;
};

std::int64_t add_one(std::int64_t x) { return x + 1; }
std::string shout(std::string text) { return text + "!"; }

void show(const std::string& name, bool equal) {
  std::cout << name << ": " << (equal ? "equal" : "DIFFERENT") << std::endl;
}

template <class Call>
void show_error(const std::string& name, const Call& call) {
  try {
    call();
    std::cout << name << ": no error" << std::endl;
  } catch (const std::exception& error) {
    std::cout << name << ": " << error.what() << std::endl;
  }
}

template <class T>
void show_same(const std::string& program, const std::string& name, const T& value) {
  const auto same = mobula::function<T(const T&)>(name, program);
  show(name, mobula::get(same.remote(value)) == value);
}

void show_values(const std::string& program) {
  show_same(program, "same_bool", true);
  show_same(program, "same_int", INT64_MIN);
  show_same(program, "same_int", short{7});  // converted in both directions
  show_same(program, "same_unsigned", UINT64_MAX);
  show_same(program, "same_double", 0.1);
  show_same(program, "same_text", std::string("caf\u00e9"));
  show_same(program, "same_bytes", Bytes(std::size_t{1} << 20, std::byte{7}));
  show_same(program, "same_list", std::vector<std::int64_t>{1, -2});
  show_same(program, "same_pairs", std::map<int, std::string>{{1, "a"}});
  show_same(program, "same_optional", std::optional<std::string>());
  show_same(program, "same_variant", std::variant<std::int64_t, std::string>("text"));
  const Whole whole{{3, "a"}, {{4, "b"}}, 0.5, {{"x", Bytes(3)}}};
  show_same(program, "same_struct", whole);
  show("text",
       mobula::get(
           mobula::function<std::string(std::string)>("same_text", program).remote("literal")) ==
           "literal");
  mobula::get(mobula::function<void()>("nothing", program).remote());
  show("tuple",
       mobula::get(mobula::function<std::tuple<int, int>(int)>("both", program).remote(4)) ==
           std::tuple(4, -4));
  const auto twice = mobula::function<mobula::Tensor(mobula::Tensor)>("twice", program);
  const auto doubled = mobula::get(twice.remote(mobula::Tensor::from({1.5F, 2.0F})));
  show("tensor", doubled.view<float>()[0] == 3.0F && doubled.view<float>()[1] == 4.0F);
}

void show_refs(const std::string& program) {
  const auto same_int = mobula::function<std::int64_t(std::int64_t)>("same_int", program);
  show("typed ref", mobula::get(same_int.remote(mobula::put(std::int64_t{5}))) == 5);
  const IntRef result = same_int.options({.num_cpus = 0}).remote(41);
  show("neutral ref", mobula::get(same_int.remote(result)) == 41);
  show("own task", mobula::get(mobula::task<add_one>.remote(result)) == 42);
  const auto text = mobula::function<std::string(std::string)>("same_text", program);
  show("own task of text", mobula::get(mobula::task<shout>.remote(text.remote("x"))) == "x!");
  show("again", mobula::get(result) == 41 && mobula::get(std::vector{result, result})[1] == 41);
  show("try_get", mobula::try_get(result).value() == 41);
  const auto bytes = mobula::function<Bytes(Bytes)>("same_bytes", program).remote(Bytes(64));
  show("view", mobula::get_view(bytes).size() == 64);

  const Lot lot{"lot", {mobula::put(std::int64_t{1})}, {{"a", mobula::put(std::int64_t{2})}}};
  const Lot shared = mobula::get(mobula::function<Lot(Lot)>("share", program).remote(lot));
  show("refs in a value", shared.refs.size() == 2 && mobula::get(shared.refs[0]) == 1 &&
                              mobula::get(shared.refs[1]) == 100 &&
                              mobula::get(*shared.more.at("a")) == 2);
}

void show_streams(const std::string& program) {
  std::cout << "stream:";
  const auto count = mobula::function<mobula::generator<std::int64_t>(int)>("count_to", program);
  for (const auto& each : count.remote(4)) std::cout << " " << mobula::get(each);
  std::cout << " end" << std::endl;
  int number = 0;
  const auto batches = mobula::function<mobula::generator<Item>(int, int)>("batches", program);
  for (const auto& each : batches.remote(3, 1000)) {
    const Item item = mobula::get(each);
    show("batch", item.name == "batch " + std::to_string(number) && item.bytes.size() == 1000 &&
                      item.elements.view<float>()[0] == static_cast<float>(number) &&
                      mobula::get(item.ref) == number);
    ++number;
  }
}

void show_errors(const std::string& program) {
  const auto call = [&]<class Result, class... P>(const std::string& name, Result (*)(P...),
                                                  auto&&... given) {
    show_error(name, [&] {
      (void)mobula::get(mobula::function<Result(P...)>(name, program).remote(given...));
    });
  };
  using Small = std::int8_t (*)(int);
  call("same_int", Small(), 300);
  call("same_text", (int (*)(std::string))(nullptr), "no number");
  call("same_struct", (Whole(*)(int))(nullptr), 1);
  call("same_itn", (int (*)(int))(nullptr), 1);
  call("fail", (int (*)(std::string))(nullptr), "no luck");
  call("nothing", (int (*)())(nullptr));
  call("twin", (int (*)(int))(nullptr), 1);
  call("same_list", (std::vector<Part>(*)(std::vector<std::int64_t>))(nullptr),
       std::vector<std::int64_t>{1});
  show_error("no text", [&] {
    mobula::function<std::string(std::string)>("same_text", program).remote("\xff");
  });
  show_error("program", [] { mobula::get(mobula::function<int()>("pid", "nobody").remote()); });
  show_error("no program", [] { mobula::function<int()>("pid", "").remote(); });
  show_error("type", [&] {
    const auto ref = mobula::function<int(int)>("same_int", program).remote(1);
    (void)mobula::get(mobula::ObjectRef<float>(ref.anchor()));
  });
}

}  // namespace

int main(int argc, char** argv) {
  const auto cluster = mobula::init(argc, argv);
  const std::string program = argv[1];
  show_values(program);
  show_refs(program);
  show_streams(program);
  show_errors(program);
}
