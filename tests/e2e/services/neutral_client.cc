// Calls functions and methods of another program by name, without their declarations:
//   neutral_client values|errors|refs|results|tensors|types|handles|actor|
//                  deaths|waits|name JOB_NAME [MIB of the largest value]
//   neutral_client streams JOB_NAME DIRECTORY
// or is another program with this name of its job:
//   neutral_client serve JOB_NAME
#include <mobula/dynamic.h>
#include <mobula/mobula.h>
#include <mobula/neutral.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace {

using namespace mobula::dynamic;
using Arguments = std::vector<NeutralValue>;

std::string program;
std::size_t large_mib = 1;

using Payloads = std::vector<std::unique_ptr<const Payload>>;

Payloads payloads_of(const Arguments& arguments) {
  Payloads payloads;
  for (const auto& each : arguments) payloads.emplace_back(new Payload(neutral_payload(each)));
  return payloads;
}

std::vector<Argument> passed(const Payloads& payloads) {
  std::vector<Argument> arguments;
  for (const auto& each : payloads) arguments.push_back({.value = each.get()});
  return arguments;
}

mobula::AnyRef submit_to(const std::string& function, const Arguments& arguments,
                         const mobula::TaskOptions& options = {}) {
  const auto payloads = payloads_of(arguments);
  return submit({.name = function, .program = program}, options, passed(payloads))[0];
}

NeutralValue value_of(const mobula::AnyRef& ref) {
  const auto fetched = get({&ref, 1}, {.timeout = std::chrono::seconds(60)});
  if (const auto* error = std::get_if<mobula::detail::ErrorRecord>(&fetched[0]))
    mobula::detail::throw_error(*error);
  return neutral_value(std::get<StoredPayload>(fetched[0]));
}

NeutralValue run(const std::string& function, const Arguments& arguments = {}) {
  return value_of(submit_to(function, arguments));
}

void show_error(const std::string& name, const std::function<void()>& call) {
  try {
    call();
    std::cout << name << ": no error" << std::endl;
  } catch (const std::exception& error) {
    std::cout << name << ": " << error.what() << std::endl;
  }
}

void show_same(const std::string& function, const NeutralValue& value, const char* shown = "") {
  std::cout << function << " " << shown << ": "
            << (run(function, {value}) == value ? "equal" : "DIFFERENT") << std::endl;
}

NeutralValue nested(int levels) {
  NeutralValue value;
  for (int i = 0; i < levels; ++i) value = List{value};
  return value;
}

// Each kind of value at its limits, there and back.
void show_values() {
  for (const bool value : {false, true}) show_same("same_bool", value);
  for (const std::int64_t value :
       {std::int64_t{0}, std::int64_t{127}, std::int64_t{128}, std::int64_t{-32}, std::int64_t{-33},
        std::int64_t{-129}, std::int64_t{40'000}, std::int64_t{-40'000}, std::int64_t{1} << 40,
        std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    show_same("same_int", value);
  }
  show_same("same_unsigned", std::numeric_limits<std::uint64_t>::max(), "2^64-1");
  show_same("same_unsigned", 0u, "0");
  show_same("same_small", -128);
  for (const double value :
       {0.0, -0.5, 1e-308, std::numeric_limits<double>::max(),
        std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::infinity()}) {
    show_same("same_double", value);
  }
  const auto nan = run("same_double", {std::nan("")});
  std::cout << "same_double NaN: "
            << (std::isnan(std::get<double>(nan.content())) ? "equal" : "DIFFERENT") << std::endl;
  show_same("same_float", double{1.1f});
  for (const char* value : {"", "caf\u00e9 \u4e2d", "a \"quoted\" text"})
    show_same("same_text", value);
  show_same("same_text", std::string("a\0b", 3), "with a zero");
  show_same("same_text", std::string(70'000, 'x'), "of 70,000 bytes");
  show_same("same_bytes", Bytes{}, "empty");
  show_same("same_bytes", Bytes{std::byte{0}, std::byte{255}, std::byte{128}});
  Bytes large(large_mib << 20);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::byte>(i * 31 >> 3);
  show_same("same_bytes", std::move(large), "large");
  show_same("same_list", List{}, "empty");
  show_same("same_list", List{1, -2, std::numeric_limits<std::int64_t>::max()});
  show_same("same_list", List(1000, 7), "of 1,000");
  show_same("same_map", Dictionary{}, "empty");
  show_same("same_map", Dictionary{{"a", 0.5}, {"", -1.5}});
  show_same("same_pairs", List{List{-1, "x"}, List{2, "y"}});
  show_same("same_optional", {}, "empty");
  show_same("same_optional", "value");
  show_same("same_variant", 3);
  show_same("same_variant", "text");
  show_same("same_struct", List{List{3, "a"}, List{List{4, "b"}, List{5, ""}}, NeutralValue(),
                                Dictionary{{"part", Bytes{std::byte{1}}}}});
  std::cout << "nothing: " << (run("nothing") == NeutralValue() ? "nil" : "DIFFERENT") << std::endl;
  std::cout << "outside: " << (run("outside", {5}) == NeutralValue(6) ? "6" : "DIFFERENT")
            << std::endl;
  std::cout << "first::twin: " << (run("first::twin", {5}) == NeutralValue(6) ? "6" : "DIFFERENT")
            << std::endl;
  // A result as the argument of the next call, without a transfer to this process.
  const mobula::AnyRef six = submit_to("first::twin", {5});
  const Argument by_ref{.ref = &six};
  const auto seven = submit({.name = "first::twin", .program = program}, {}, {&by_ref, 1});
  std::cout << "by ref: " << (value_of(seven[0]) == NeutralValue(7) ? "7" : "DIFFERENT")
            << std::endl;
}

void show_errors() {
  const std::vector<std::pair<std::string, Arguments>> wrong = {
      {"same_int", {"text"}},
      {"same_int", {0.5}},
      {"same_int", {std::nan("")}},
      {"same_int", {std::numeric_limits<std::uint64_t>::max()}},
      {"same_small", {128}},
      {"same_double", {"nan"}},
      {"same_text", {Bytes{std::byte{1}}}},
      {"same_bytes", {"text"}},
      {"same_struct",
       {NeutralValue(
           List{List{3, "a"}, List{List{"four", "b"}, List{5, "c"}}, 0.5, Dictionary{}})}},
      {"same_struct", {NeutralValue(List{List{3, "a"}, 0.5})}},
      {"same_list", {nested(200)}},
      {"same_int", {}},
      {"same_int", {1, 2}},
      {"sum", {1}},
      {"broken_text", {}},
      {"broken_member", {}},
      {"twin", {1}},
      {"same_itn", {1}},
      {"fail", {"no luck"}},
  };
  for (const auto& each : wrong)
    show_error(each.first, [&] { (void)run(each.first, each.second); });
  show_error("nested", [] { (void)neutral_payload(nested(300)); });
  show_error("format", [] {
    const std::byte body{1};
    const Payload value("other/1", {.body = {&body, 1}});
    const Argument argument{.value = &value};
    (void)value_of(submit({.name = "same_int", .program = program}, {}, {&argument, 1})[0]);
  });
  show_error("corrupt", [] {
    const std::byte body{0xdd};
    const Payload value(neutral_format, {.body = {&body, 1}});
    const Argument argument{.value = &value};
    (void)value_of(submit({.name = "same_int", .program = program}, {}, {&argument, 1})[0]);
  });
  show_error("results", [] {
    (void)value_of(submit({.name = "nothing", .program = program}, {}, {}, {.count = 2})[0]);
  });
  show_error("create", [] {
    (void)create({.name = "Store", .class_name = "Store", .program = program}, {}, {});
  });
  program = "neutral_servise";
  show_error("program", [] { (void)run("same_int", {1}); });
}

std::vector<NeutralValue> values_of(const std::vector<mobula::AnyRef>& refs) {
  std::vector<NeutralValue> values;
  for (const auto& each : refs) values.push_back(value_of(each));
  return values;
}

std::vector<mobula::AnyRef> submit_several(const std::string& function, const Arguments& arguments,
                                           int count) {
  const auto payloads = payloads_of(arguments);
  return submit({.name = function, .program = program}, {}, passed(payloads), {.count = count});
}

// The value of a ref of the other program, by a function there.
NeutralValue read_there(const NeutralValue& ref) { return run("read_ref", {ref}); }
mobula::AnyRef ref_in(const NeutralValue& value) { return std::get<Ref>(value.content()).get(); }

NeutralValue call_store(const std::string& method, const Arguments& arguments) {
  const auto store = get_actor("store", "neutral", "Store");
  const auto payloads = payloads_of(arguments);
  return value_of(call(store, {.name = method}, {}, passed(payloads))[0]);
}

void show(const std::string& name, bool equal) {
  std::cout << name << ": " << (equal ? "equal" : "DIFFERENT") << std::endl;
}

void show_refs() {
  const NeutralValue result = run("start_double", {21});
  show("result", read_there(result) == NeutralValue(42));
  // As an argument by ref, whose value is typed.
  const mobula::AnyRef doubled = ref_in(result);
  const Argument by_ref{.ref = &doubled};
  show("typed by ref", value_of(submit({.name = "same_int", .program = program}, {},
                                       {&by_ref, 1})[0]) == NeutralValue(42));
  show("same ref", run("pass_on", {result}) == result);
  show("empty ref", read_there({}) == NeutralValue(-1));
  show("empty result", run("pass_on", {NeutralValue()}) == NeutralValue());
  // Refs inside of values, in both directions.
  const NeutralValue given = List{"a", List{result, run("start_double", {1})},
                                  Dictionary{{"b", result}, {"c", NeutralValue()}}};
  show("sum", run("sum_of", {given}) == NeutralValue(42 + 2 + 42));
  const NeutralValue back = run("share", {given});
  show("sum of shared", run("sum_of", {back}) == NeutralValue(42 + 2 + 42 + 100));
  const auto& parts = std::get<List>(back.content());
  show("shared ref", std::get<List>(parts[1].content())[0] == result);
  // A ref of this program. Its value is neutral.
  const NeutralValue own = mobula::AnyRef(put(neutral_payload(9)));
  show("own ref", run("read_neutral", {own}) == NeutralValue(9));
  show("own ref back", value_of(ref_in(run("pass_on", {own}))) == NeutralValue(9));
  show_error("own ref read as C++", [&] { (void)read_there(own); });
  show_error("C++ ref read here", [&] { (void)value_of(doubled); });
  show_error("value for a ref", [] { (void)run("read_ref", {5}); });
  show_error("ref for a value", [&] { (void)run("same_int", {result}); });
  show_error("another type by ref", [&] {
    (void)value_of(submit({.name = "same_text", .program = program}, {}, {&by_ref, 1})[0]);
  });
  show_error("ref in a member", [&] {
    (void)run("share", {NeutralValue(List{"a", List{NeutralValue(List{result})}, Dictionary{}})});
  });
}

void show_results() {
  const auto three = submit_several("three", {5}, 3);
  show("three", value_of(three[0]) == NeutralValue(5) && value_of(three[1]) == "three" &&
                    read_there(value_of(three[2])) == NeutralValue(6));
  const auto whole = value_of(submit_to("three", {5}));
  show("three as one", std::get<List>(whole.content()).size() == 3);
  show("both", values_of(submit_several("both", {4}, 2)) == std::vector<NeutralValue>{4, -4});
  show("deferred",
       values_of(submit_several("later_both", {4}, 2)) == std::vector<NeutralValue>{4, "later"});
  show("none", submit_several("both", {4}, 0).empty());
  show_error("four", [] { (void)value_of(submit_several("three", {5}, 4)[3]); });
  show_error("two of one", [] { (void)value_of(submit_several("same_int", {5}, 2)[0]); });
  show_error("third", [] { (void)value_of(submit_several("broken_third", {}, 3)[0]); });
}

mobula::Tensor tensor_of(const mobula::Extents& shape, mobula::DType dtype, int first = 0) {
  auto tensor = mobula::Tensor::empty(shape, dtype);
  int number = first;
  for (std::byte& each : tensor.mutable_view<std::byte>())
    each = static_cast<std::byte>(dtype == mobula::DType::boolean ? number++ % 2 : number++ * 31);
  return tensor;
}
NeutralValue floats(std::vector<float> elements) { return mobula::Tensor::from(elements); }

// Every dtype, shapes with and without elements, and elements that are not in order.
void show_same_tensors() {
  using mobula::DType;
  for (int i = 0; i <= static_cast<int>(DType::float8_e8m0); ++i) {
    const auto dtype = static_cast<DType>(i);
    show_same("same_tensor", tensor_of({3, 2}, dtype), std::string(dtype_name(dtype)).c_str());
  }
  const std::vector<mobula::Extents> shapes{
      {}, {0}, {2, 0, 3}, {1}, {2, 3, 4}, {5, 1, 1, 1, 2}, {300, 7}};
  for (const mobula::Extents& shape : shapes)
    show_same("same_tensor", tensor_of(shape, DType::int16), "shape");
  show_same("same_tensor", mobula::Tensor(), "empty");
  show_same("same_tensor", tensor_of({3, 4, 2}, DType::int32).transpose(0, 2), "transposed");
  const auto half = tensor_of({2, 4}, DType::int64).transpose(0, 1).contiguous().reshape({8});
  show_same("same_tensor", half, "copied");
}

// Small and large elements by every path that this machine has.
void show_paths() {
  for (const std::size_t size : {std::size_t{100}, std::size_t{30'000}, large_mib << 20}) {
    for (const auto path : {mobula::Transport::object_store, mobula::Transport::automatic}) {
      const NeutralValue value = tensor_of({size}, mobula::DType::uint8);
      const auto result = submit_to("same_tensor", {value}, {.tensor_transport = path});
      show("path", value_of(result) == value);
      // The result goes to the next call without this program.
      const Argument by_ref{.ref = &result};
      const auto next = submit({.name = "same_tensor", .program = program},
                               {.tensor_transport = path}, {&by_ref, 1});
      show("path by ref", value_of(next[0]) == value);
      const Payload stored = neutral_payload(value);
      const mobula::AnyRef own = put(stored, {.tensor_transport = path});
      const Argument of_own{.ref = &own};
      show("path of own", value_of(submit({.name = "same_tensor", .program = program},
                                          {.tensor_transport = path}, {&of_own, 1})[0]) == value);
    }
  }
}

void show_tensors() {
  show_same_tensors();
  show_paths();
  show("twice", run("twice", {floats({1, 2.5F})}) == floats({2, 5}));
  show("later", run("later_tensor", {floats({1, 2.5F})}) == floats({2, 5}));
  const NeutralValue large = tensor_of({large_mib << 18}, mobula::DType::float32, 5);
  const NeutralValue model = List{"net", List{floats({1}), large, floats({})},
                                  Dictionary{{"a", large}, {"b", floats({2, 3})}}, floats({4})};
  show("model", run("same_model", {model}) == model);
  const NeutralValue empty = List{"net", List{}, Dictionary{}, NeutralValue()};
  show("empty model", run("same_model", {empty}) == empty);
  show_same("same_either", floats({1, 2}), "tensor");
  show_same("same_either", "text");
  const auto parts = values_of(submit_several("parts_of", {floats({1, 2})}, 3));
  show("parts", parts == std::vector<NeutralValue>{floats({2, 4}), 2, floats({1, 2})});
  show("parts as one",
       run("parts_of", {floats({3})}) == NeutralValue(List{floats({6}), 1, floats({3})}));
  // A ref to a tensor that C++ wrote: as a ref, and as its value.
  const NeutralValue ref = run("put_tensor", {large});
  show("read", run("read_tensor", {ref}) == large);
  const mobula::AnyRef typed = ref_in(ref);
  const Argument by_ref{.ref = &typed};
  show("typed by ref",
       value_of(submit({.name = "same_tensor", .program = program}, {}, {&by_ref, 1})[0]) == large);
  (void)call_store("keep_tensor", {floats({1, 2, 3})});
  show("kept", call_store("kept_tensor", {}) == floats({1, 2, 3}));
  show_error("number for a tensor", [] { (void)run("same_tensor", {5}); });
  show_error("nil for a tensor", [] { (void)run("same_tensor", {NeutralValue()}); });
  show_error("ref for a tensor", [&] { (void)run("same_tensor", {ref}); });
  show_error("tensor for a number", [] { (void)run("same_int", {floats({1})}); });
  show_error("tensor for bytes", [] { (void)run("same_bytes", {floats({1})}); });
  show_error("tensor for a ref", [] { (void)run("read_tensor", {floats({1})}); });
  show_error("in a member", [] {
    (void)run("same_model", {NeutralValue(List{"net", List{floats({1}), 2}, Dictionary{}, 3})});
  });
  show_error("missing", [] {
    const std::string body("\xd6\x02\0\0\0\0", 6);
    const Payload value(neutral_format, {.body = std::as_bytes(std::span(body))});
    const Argument argument{.value = &value};
    (void)value_of(submit({.name = "same_tensor", .program = program}, {}, {&argument, 1})[0]);
  });
  show_error("written", [] { (void)run("write_parameter", {floats({5})}); });
}

// Reads a stream: its items, and then its error, if it has one.
void show_stream(const std::string& name, mobula::AnyRef position) {
  std::cout << name << ":";
  for (;;) {
    const auto step = next(position, {.timeout = std::chrono::seconds(60)});
    if (const auto* error = std::get_if<mobula::detail::ErrorRecord>(&step)) {
      std::cout << " error: " << error->message << std::endl;
      return;
    }
    const auto& [item, behind] = std::get<StreamItem>(step);
    if (item.empty()) break;
    std::cout << " " << std::get<std::int64_t>(value_of(item).content());
    position = behind;
  }
  std::cout << " end" << std::endl;
}

mobula::AnyRef stream_of(const std::string& function, const Arguments& arguments,
                         const mobula::TaskOptions& options = {}) {
  const auto payloads = payloads_of(arguments);
  return submit({.name = function, .program = program}, options, passed(payloads),
                {.streaming = true})[0];
}

mobula::AnyRef stream_of_store(const std::string& method, const Arguments& arguments,
                               const mobula::CallOptions& options = {}) {
  const auto payloads = payloads_of(arguments);
  return call(get_actor("store", "neutral", "Store"), {.name = method}, options, passed(payloads),
              {.streaming = true})[0];
}

// All items of a stream, which has no error.
List items_of(mobula::AnyRef position) {
  List items;
  for (;;) {
    const auto step = next(position, {.timeout = std::chrono::seconds(60)});
    if (const auto* error = std::get_if<mobula::detail::ErrorRecord>(&step))
      mobula::detail::throw_error(*error);
    if (std::get<StreamItem>(step).item.empty()) return items;
    items.push_back(value_of(std::get<StreamItem>(step).item));
    position = std::get<StreamItem>(step).next;
  }
}

void show_streams(const std::string& directory) {
  show_stream("count", stream_of("count_to", {5}));
  show_stream("none", stream_of("count_to", {0}));
  show("window", items_of(stream_of("count_to", {300}, {.stream_window = 2})).size() == 300);
  show("items", items_of(stream_of_store("items", {2})) == List{List{0, "item"}, List{1, "item"}});
  // Small items, and items that are objects of the store.
  for (const std::size_t size : {std::size_t{10}, std::size_t{300'000}}) {
    const List batches = items_of(stream_of("batches", {3, size}, {.stream_window = 2}));
    bool equal = batches.size() == 3;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const auto& members = std::get<List>(batches[i].content());
      equal &= members[0] == NeutralValue("batch " + std::to_string(i)) &&
               members[1] == floats({static_cast<float>(i)}) &&
               read_there(members[2]) == NeutralValue(i) && members[3] == NeutralValue(Bytes(size));
    }
    show("batches", equal);
  }
  show_stream("dropped", stream_of("fails_after", {2}, {.max_retries = 0}));
  show_error("broken", [] { (void)items_of(stream_of("broken_items", {})); });
  // The process of the function, then that of the actor, ends before item 3.
  show_stream("function repeats", stream_of("dies_once", {6, 3, directory + "/first"}));
  show_stream("function dies",
              stream_of("dies_once", {6, 3, directory + "/second"}, {.max_retries = 0}));
  show_stream("actor dies", stream_of_store("dies_once", {6, 3, directory + "/third"}));
  show_stream("actor repeats",
              stream_of_store("dies_once", {6, 3, directory + "/fourth"}, {.max_task_retries = 1}));
  show_stream("one result", stream_of("same_int", {5}));
  show_error("a stream", [] { (void)run("count_to", {5}); });
  show_error("unknown", [] { (void)items_of(stream_of("count_too", {5})); });
}

NeutralValue call_of(const NeutralValue& handle, const std::string& method,
                     const Arguments& arguments) {
  const auto payloads = payloads_of(arguments);
  const auto& actor = std::get<Handle>(handle.content()).get();
  return value_of(call(actor, {.name = method}, {}, passed(payloads))[0]);
}

// Returns an actor of the other program, which has no name: its handles keep it.
NeutralValue show_handle_calls() {
  const NeutralValue store = get_actor("store", "neutral", "Store");
  (void)call_store("put", {"a", List{3, "three"}});
  show("same handle", run("same_store", {store}) == store);
  show("empty handle", run("same_store", {NeutralValue()}) == NeutralValue());
  show("read there", run("count_in", {store, "a"}) == NeutralValue(3));
  NeutralValue made = run("make_store", {"b"});
  show("call", call_of(made, "get", {"b"}) == NeutralValue(List{7, "made"}));
  show("read made", run("count_in", {made, "b"}) == NeutralValue(7));
  const NeutralValue owner = List{"owner", List{store, made}, made};
  show("inside", run("same_owner", {owner}) == owner);
  // The value of a ref, without this process.
  const mobula::AnyRef by_ref = submit_to("make_store", {"c"});
  const auto payloads = payloads_of({"c"});
  const std::vector<Argument> passed_by_ref{{.ref = &by_ref}, {.value = payloads[0].get()}};
  show("by ref", value_of(submit({.name = "count_in", .program = program}, {}, passed_by_ref)[0]) ==
                     NeutralValue(7));
  show_error("method", [&] { (void)call_of(made, "erase", {"b"}); });
  show_error("number for a handle", [] { (void)run("same_store", {5}); });
  show_error("handle for a number", [&] { (void)run("same_int", {store}); });
  show_error("ref for a handle", [] {
    (void)run("same_store", {NeutralValue(mobula::AnyRef(put(neutral_payload(9))))});
  });
  show_error("missing", [] {
    const std::string body("\xd6\x03\0\0\0\0", 6);
    const Payload value(neutral_format, {.body = std::as_bytes(std::span(body))});
    const Argument argument{.value = &value};
    (void)value_of(submit({.name = "same_store", .program = program}, {}, {&argument, 1})[0]);
  });
  return made;
}

void show_handles() {
  NeutralValue made = show_handle_calls();
  std::cout << "held" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  made = {};
  std::cout << "dropped" << std::endl;
  std::getline(std::cin, line);
}

void show_types() {
  show_error("reader", [] { (void)run("takes_reader", {NeutralValue(List{1, List{}})}); });
  show_error("position", [] { (void)run("gives_stream"); });
  show_error("positions", [] { (void)items_of(stream_of("gives_streams", {})); });
}

void show_actor() {
  const NeutralValue item = List{3, "three"};
  std::cout << "put: " << (call_store("put", {"a", item}) == NeutralValue() ? "nil" : "DIFFERENT")
            << std::endl;
  std::cout << "get: " << (call_store("Store::get", {"a"}) == item ? "equal" : "DIFFERENT")
            << std::endl;
  std::cout << "later: " << (call_store("later", {"x"}) == NeutralValue("x") ? "x" : "DIFFERENT")
            << std::endl;
  const auto store = get_actor("store", "neutral", "Store");
  const auto both = call(store, {.name = "both"}, {}, {}, {.count = 2});
  show("both", values_of(both) == std::vector<NeutralValue>{7, "seven"});
  const NeutralValue own = mobula::AnyRef(put(neutral_payload(9)));
  (void)call_store("keep", {own});
  show("kept", value_of(ref_in(call_store("kept", {}))) == NeutralValue(9));
  show_error("read kept", [] { (void)call_store("read_kept", {}); });
  show_error("items", [] { (void)items_of(stream_of_store("both", {})); });
  show_error("put", [] { (void)call_store("put", {"a", List{"three", 3}}); });
  show_error("erase", [] { (void)call_store("erase", {"a"}); });
  show_error("class", [] { (void)get_actor("store", "neutral", "Shop"); });
}

void show_deaths() {
  show_error("die", [] { (void)value_of(submit_to("die", {}, {.max_retries = 0})); });
  std::cout << "after: " << (run("same_int", {5}) == NeutralValue(5) ? "5" : "DIFFERENT")
            << std::endl;
  (void)call_store("put", {"a", List{3, "three"}});
  show_error("actor", [] { (void)call_store("die", {}); });
  // The actor is constructed again, without items.
  for (;;) {
    try {
      std::cout << "again: " << (call_store("get", {"a"}) == NeutralValue() ? "nil" : "DIFFERENT")
                << std::endl;
      return;
    } catch (const mobula::ActorUnavailableError&) {
    }
  }
}

// A call runs and another one waits while the other program ends.
void show_waits() {
  const mobula::AnyRef running = submit_to("hold", {}, {.num_cpus = 2});
  const mobula::AnyRef waiting = submit_to("same_int", {1}, {.num_cpus = 2});
  std::cout << "waiting" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  show_error("waiting", [&] { (void)value_of(waiting); });
  cancel(running);
  show_error("running", [&] { (void)value_of(running); });
  for (;;) {
    try {
      (void)run("same_int", {1});
    } catch (const mobula::NotFoundError& error) {
      std::cout << "later: " << error.what() << std::endl;
      return;
    } catch (const mobula::UnschedulableError&) {
      // The name is known for a second after the end.
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string part = argv[1];
  program = argv[2];
  if (argc > 3 && part != "streams") large_mib = std::stoul(argv[3]);
  const auto cluster =
      mobula::init(argc, argv, {.job_name = part == "serve" ? program : "neutral_client"});
  if (part == "values") show_values();
  if (part == "errors") show_errors();
  if (part == "refs") show_refs();
  if (part == "results") show_results();
  if (part == "tensors") show_tensors();
  if (part == "types") show_types();
  if (part == "streams") show_streams(argv[3]);
  if (part == "handles") show_handles();
  if (part == "actor") show_actor();
  if (part == "deaths") show_deaths();
  if (part == "waits") show_waits();
  if (part == "name") show_error("name", [] { (void)run("same_int", {1}); });
  if (part == "serve") {
    std::cout << "serving" << std::endl;
    std::string line;
    std::getline(std::cin, line);
  }
} catch (const std::exception& error) {
  std::cerr << "neutral_client: " << error.what() << std::endl;
  return 1;
}
