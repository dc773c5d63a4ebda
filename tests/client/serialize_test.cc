#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <fstream>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include <mobula/exceptions.h>
#include <mobula/msgpack.h>
#include <mobula/object_ref.h>
#include <mobula/serialize.h>
#include <mobula/view.h>

namespace {

using mobula::SerializationError;
using mobula::detail::StoredValue;

template <class T>
T from_bytes(std::span<const std::byte> bytes) {
  return mobula::detail::decode<T>(StoredValue{.bytes = bytes});
}

template <class T>
T round_trip(const T& value) {
  return from_bytes<T>(mobula::detail::to_bytes(value));
}

template <class T>
void expect_same(const T& value) {
  EXPECT_EQ(round_trip(value), value);
}

enum class Color : std::uint8_t { red, green = 200 };
enum Old { one, two };

struct Point {
  float x, y;
  friend bool operator==(const Point&, const Point&) = default;
};

struct Padded {
  char c;
  int i;
  friend bool operator==(const Padded&, const Padded&) = default;
};

struct Everything {
  int number = 0;
  std::string text;
  std::optional<Point> point;
  std::vector<Padded> rows;
  std::map<std::string, std::vector<Point>> named;
  std::variant<int, std::string> either;
  std::array<double, 3> three = {};
  Color color = Color::red;
  bool flag = false;
  friend bool operator==(const Everything&, const Everything&) = default;
};

struct Empty {
  friend bool operator==(const Empty&, const Empty&) = default;
};

struct Tree {
  int value = 0;
  std::vector<Tree> children;
  friend bool operator==(const Tree&, const Tree&) = default;
};

struct Chain {
  int value = 0;
  std::unique_ptr<Chain> next;
};

struct Large {
  int m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20,
      m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39,
      m40, m41, m42, m43, m44, m45, m46, m47, m48, m49, m50, m51, m52, m53, m54, m55, m56, m57, m58,
      m59, m60, m61, m62;
  std::string m63;
  friend bool operator==(const Large&, const Large&) = default;
};

struct TooLarge {
  Large large;
  int m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, m10, m11, m12, m13, m14, m15, m16, m17, m18, m19, m20,
      m21, m22, m23, m24, m25, m26, m27, m28, m29, m30, m31, m32, m33, m34, m35, m36, m37, m38, m39,
      m40, m41, m42, m43, m44, m45, m46, m47, m48, m49, m50, m51, m52, m53, m54, m55, m56, m57, m58,
      m59, m60, m61, m62, m63;
};

// No default constructor, private members.
class Money {
 public:
  explicit Money(std::int64_t cents) : cents_(cents) {}
  std::int64_t cents() const { return cents_; }
  friend bool operator==(const Money&, const Money&) = default;

 private:
  std::int64_t cents_;
};

// Writes no bytes.
struct Token {
  explicit Token(int) {}
  friend bool operator==(const Token&, const Token&) = default;
};

class Packed {
 public:
  Packed() = default;
  Packed(int number, std::string text) : number_(number), text_(std::move(text)) {}
  MSGPACK_DEFINE(number_, text_)
  friend bool operator==(const Packed&, const Packed&) = default;

 private:
  int number_ = 0;
  std::string text_;
};

// Grows by one byte with each serialization.
struct Restless {
  mutable int encodings = 0;
};

}  // namespace

template <>
struct mobula::Serializer<Money> {
  static void write(Writer& out, const Money& money) { out.write(money.cents()); }
  static Money read(Reader& in) { return Money(in.read<std::int64_t>()); }
};

template <>
struct mobula::Serializer<Token> {
  static void write(Writer&, const Token&) {}
  static Token read(Reader&) { return Token(0); }
};

template <>
struct mobula::Serializer<Restless> {
  static void write(Writer& out, const Restless& value) {
    out.write(std::string(static_cast<std::size_t>(++value.encodings), 'x'));
  }
  static Restless read(Reader&) { return {}; }
};

namespace {

TEST(Serialize, RestoresNumbers) {
  expect_same(-1);
  expect_same(std::numeric_limits<std::uint64_t>::max());
  expect_same(1.5);
  expect_same(1.25L);
  expect_same(true);
  expect_same('x');
  expect_same(Color::green);
  expect_same(two);
  expect_same(std::byte{7});
  expect_same(std::complex<double>(1, 2));
  expect_same(std::complex<long double>(1, 2));
}

TEST(Serialize, RestoresTextAndContainers) {
  using namespace std::string_literals;
  expect_same(""s);
  expect_same(std::string(5000, 'a'));
  expect_same(u"wide"s);
  expect_same(std::vector<int>{});
  expect_same(std::vector<float>(1000, 0.5F));
  expect_same(std::vector<bool>{true, false, true});
  expect_same(std::vector<std::string>{"a", "", "c"});
  expect_same(std::vector<Point>(100, {1, 2}));
  expect_same(std::vector<Padded>{{'a', 1}, {'b', 2}});
  expect_same(std::deque<int>{1, 2});
  expect_same(std::list<std::string>{"x"});
  expect_same(std::set<int>{3, 1});
  expect_same(std::multiset<int>{3, 3});
  expect_same(std::unordered_set<std::string>{"p", "q"});
  expect_same(std::map<int, std::string>{{1, "one"}});
  expect_same(std::multimap<int, int>{{1, 1}, {1, 2}});
  expect_same(std::unordered_map<std::string, std::vector<int>>{{"a", {1}}, {"b", {}}});
  expect_same(std::array<int, 3>{1, 2, 3});
  expect_same(std::array<float, 100>{1});
  expect_same(std::array<std::string, 2>{"a", "b"});
  expect_same(std::array<std::string, 70>{"a"});
  expect_same(std::array<int, 0>{});
}

TEST(Serialize, RestoresCompounds) {
  expect_same(std::optional<int>());
  expect_same(std::optional<std::string>("x"));
  expect_same(std::optional<std::optional<int>>(std::optional<int>()));
  expect_same(std::variant<int, std::string, Money>(Money(5)));
  expect_same(std::pair<int, std::string>(1, "x"));
  expect_same(std::tuple<int, std::tuple<>, std::vector<int>>(1, {}, {2}));
  expect_same(std::chrono::milliseconds(5));
  expect_same(std::chrono::duration<double>(0.5));
  expect_same(std::chrono::sys_seconds(std::chrono::seconds(7)));
  EXPECT_EQ(*round_trip(std::make_unique<int>(4)), 4);
  EXPECT_EQ(round_trip(std::unique_ptr<int>()), nullptr);
}

TEST(Serialize, RestoresStructs) {
  expect_same(Point{1, 2});
  expect_same(Padded{'c', 3});
  expect_same(Empty{});
  expect_same(std::vector<Empty>(3));
  expect_same(Everything{
      1, "t", Point{1, 2}, {{'a', 1}}, {{"n", {{3, 4}}}}, "x", {1, 2, 3}, Color::green, true});
  Large large{};
  large.m62 = 62;
  large.m63 = "last";
  expect_same(large);
  static_assert(!mobula::is_serializable<TooLarge>);
}

TEST(Serialize, RestoresRecursiveTypes) {
  expect_same(Tree{1, {{2, {}}, {3, {{4, {}}}}}});
  Chain chain{1, std::make_unique<Chain>(Chain{2, nullptr})};
  EXPECT_EQ(round_trip(chain).next->value, 2);
}

TEST(Serialize, RestoresTypesWithoutDefaultConstructor) {
  expect_same(Money(5));
  expect_same(std::vector<Money>{Money(1), Money(2)});
  expect_same(std::map<int, Money>{{1, Money(1)}});
  expect_same(std::array<Money, 2>{Money(1), Money(2)});
  expect_same(std::tuple<Money, int>(Money(1), 2));
  expect_same(std::vector<Token>(3, Token(1)));
}

TEST(Serialize, RestoresMsgpackTypes) {
  expect_same(Packed(1, "x"));
  expect_same(std::vector<Packed>{{1, "x"}, {2, "y"}});
  auto bytes = mobula::detail::to_bytes(Packed(1, "x"));
  bytes.back() ^= std::byte{0xff};
  bytes[bytes.size() - 3] = std::byte{0xc1};  // a byte that msgpack never uses
  EXPECT_THROW(from_bytes<Packed>(bytes), SerializationError);
}

TEST(Serialize, RejectsTypesThatOwnNothing) {
  struct Pointing {
    int* p;
  };
  struct Array {
    int a[3];
    int b;
  };
  struct Derived : Point {
    int z;
  };
  static_assert(!mobula::is_serializable<int*>);
  static_assert(!mobula::is_serializable<const char*>);
  static_assert(!mobula::is_serializable<std::string_view>);
  static_assert(!mobula::is_serializable<Pointing>);
  static_assert(!mobula::is_serializable<std::vector<Pointing>>);
  static_assert(!mobula::is_serializable<Array>);
  static_assert(!mobula::is_serializable<Derived>);
  static_assert(!mobula::is_serializable<std::shared_ptr<int>>);
  static_assert(!mobula::is_serializable<std::function<void()>>);
  static_assert(mobula::is_serializable<mobula::ObjectRef<Array>>);
}

TEST(Serialize, AlignsLargeBlocksForReadInPlace) {
  const auto bytes =
      mobula::detail::to_bytes(std::tuple(std::string("odd"), std::vector(100, 1.0)));
  const std::vector<double> ones(100, 1.0);
  const auto* begin = reinterpret_cast<const std::byte*>(ones.data());
  const auto found = std::search(bytes.begin(), bytes.end(), begin, begin + 800);
  ASSERT_NE(found, bytes.end());
  EXPECT_EQ((found - bytes.begin()) % 64, 0);
}

TEST(Serialize, RejectsBytesOfAnotherType) {
  EXPECT_THROW(from_bytes<unsigned>(mobula::detail::to_bytes(1)), SerializationError);
  EXPECT_THROW(from_bytes<std::vector<float>>(mobula::detail::to_bytes(std::vector<int>{1})),
               SerializationError);
  EXPECT_THROW(from_bytes<Padded>(mobula::detail::to_bytes(Point{1, 2})), SerializationError);
  EXPECT_THROW(from_bytes<int>({}), SerializationError);
}

// The flags of the mapping that contains `address`, in the form of /proc/self/smaps: "rd wr mr mw
// me ac hg ".
std::string mapping_flags(const void* address) {
  std::ifstream file("/proc/self/smaps");
  std::string line;
  bool inside = false;
  while (std::getline(file, line)) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      const auto at = reinterpret_cast<unsigned long>(address);
      inside = begin <= at && at < end;
    }
    if (inside && line.starts_with("VmFlags: ")) return line.substr(9);
  }
  return {};
}

TEST(Serialize, CopiesLargeBlockIntoHugePages) {
  // above the largest threshold of malloc
  const std::vector<std::uint32_t> large(std::size_t{16} << 20, 7);
  const auto copy = round_trip(large);
  EXPECT_EQ(copy, large);
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"))
    GTEST_SKIP() << "this kernel has no huge pages";
  EXPECT_NE(mapping_flags(copy.data() + copy.size() / 2).find("hg "), std::string::npos);
  EXPECT_EQ(round_trip(std::string(5 << 20, 'x')), std::string(5 << 20, 'x'));
}

TEST(Serialize, RejectsDamagedLengths) {
  auto bytes = mobula::detail::to_bytes(std::vector<std::string>{"abc"});
  for (const std::size_t position : {16, 24}) {
    auto damaged = bytes;
    for (std::size_t i = 0; i < 8; ++i) damaged[position + i] = std::byte{0xff};
    EXPECT_THROW(from_bytes<std::vector<std::string>>(damaged), SerializationError);
  }
  bytes.push_back(std::byte{0});
  EXPECT_THROW(from_bytes<std::vector<std::string>>(bytes), SerializationError);
  auto flag = mobula::detail::to_bytes(true);
  flag.back() = std::byte{2};
  EXPECT_THROW(from_bytes<bool>(flag), SerializationError);
}

TEST(Serialize, RejectsDeepNesting) {
  Chain chain;
  for (int i = 0; i < 400; ++i) chain = {i, std::make_unique<Chain>(std::move(chain))};
  EXPECT_THROW(mobula::detail::to_bytes(chain), SerializationError);
}

TEST(Serialize, RejectsVaryingElementCount) {
  EXPECT_THROW(mobula::detail::to_bytes(Restless{}), SerializationError);
}

TEST(Serialize, RejectsForgedRefs) {
  const auto bytes = mobula::detail::to_bytes(mobula::ObjectRef<int>());
  auto damaged = bytes;
  damaged[16] = std::byte{1};
  damaged.resize(damaged.size() + 4);
  EXPECT_THROW(from_bytes<mobula::ObjectRef<int>>(damaged), SerializationError);
}

// Damaged bytes yield a value or a SerializationError, and allocate at most the memory that they
// could fill.
template <class T>
void survive(const T& value, std::mt19937_64& random) {
  const auto good = mobula::detail::to_bytes(value);
  for (int round = 0; round < 2000; ++round) {
    auto bytes = good;
    const std::size_t changes = 1 + random() % 4;
    for (std::size_t i = 0; i < changes; ++i) {
      if (bytes.size() > 16) bytes[16 + random() % (bytes.size() - 16)] = std::byte(random());
    }
    if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
    try {
      (void)from_bytes<T>(bytes);
    } catch (const SerializationError&) {
    }
  }
}

TEST(Serialize, DamagedBytes_DoNoHarm) {
  const std::uint64_t seed = 20'240'601;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  survive(Everything{1, "t", Point{1, 2}, {{'a', 1}}, {{"n", {{3, 4}}}}, "x", {}, {}, true},
          random);
  survive(Tree{1, {{2, {}}, {3, {{4, {}}}}}}, random);
  survive(std::vector<std::vector<std::string>>{{"a"}, {"b", "c"}}, random);
  survive(std::map<std::string, std::optional<std::vector<double>>>{{"a", {{1.0}}}}, random);
  survive(std::unordered_map<int, Money>{{1, Money(1)}}, random);
  survive(std::vector<Packed>{{1, "x"}}, random);
  survive(std::vector<Empty>(3), random);
  survive(std::vector<bool>(30), random);
  survive(mobula::View<std::vector<float>>(), random);
}

}  // namespace
