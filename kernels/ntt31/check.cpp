// Drives the emulated driver: every size, order, coset and direction against a naive transform.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <vector>
using u32 = uint32_t; using u64 = uint64_t;
static void* lib;
template <class F> F sym(const char* n) { auto p = (F)dlsym(lib, n); if (!p) { printf("no %s\n", n); exit(1); } return p; }
#define OK(e) do { int r_ = (e); if (r_) { printf("%s:%d error %d\n", __FILE__, __LINE__, r_); exit(1); } } while (0)
static u32 P; static u32 G;
u32 mul(u32 a, u32 b) { return u64(a) * b % P; }
u32 power(u32 b, u64 e) { u32 r = 1; for (; e; e >>= 1, b = mul(b, b)) if (e & 1) r = mul(r, b); return r; }
u32 inv(u32 a) { return power(a, P - 2); }
u32 root(int k, bool inverse) { u32 w = power(G, (P - 1) >> k); return inverse ? inv(w) : w; }
u32 rev(u32 x, int bits) { u32 r = 0; for (int i = 0; i < bits; i++) r |= ((x >> i) & 1) << (bits - 1 - i); return r; }
struct Tw { u32 w, q; };
Tw shoup(u32 w) { return {w, u32((u64(w) << 32) / P)}; }
u32 mont(u32 w) { return (u64(w) << 32) % P; }
struct Prime { u32 p, minus, inv, pad; Tw unit[16]; };
typedef u64 Ptr;
static int (*cuMemAlloc)(Ptr*, size_t); static int (*toD)(Ptr, const void*, size_t); static int (*toH)(void*, Ptr, size_t); static int (*freeD)(Ptr);
static int (*getFunction)(void**, void*, const char*);
static int (*launchKernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
static int (*setAttr)(void*, int, int); static int (*sync_)();
static void* module;
static std::vector<Ptr> allocated;
template <class T> Ptr up(const std::vector<T>& v) { Ptr p; OK(cuMemAlloc(&p, v.size() * sizeof(T))); OK(toD(p, v.data(), v.size() * sizeof(T))); allocated.push_back(p); return p; }
template <class... A> void launch(const std::string& name, u64 grid, u32 threads, u32 shared, A... args) {
    void* f; OK(getFunction(&f, module, name.c_str())); OK(setAttr(f, 8, shared));
    void* a[] = {&args...};
    OK(launchKernel(f, grid, 1, 1, threads, 1, 1, shared, nullptr, a, nullptr)); OK(sync_());
}
int lgc(int s) { return s > 9 ? 14 - s : 5; }
std::vector<Tw> tile_twiddles(int s, bool inverse) {
    int k0 = (s + 1) / 2, k1 = s - k0; u32 w = root(s, inverse); std::vector<Tw> t(1 << s);
    for (int l = 0; l < 1 << k0; l++) for (int low = 0; low < 1 << k1; low++) t[l << k1 | low] = shoup(power(w, u64(low) * rev(l, k0)));
    return t;
}
std::vector<u32> transform(std::vector<u32> in, int lg_n, int batch, std::vector<int> cut, bool inverse, u32 g, bool ir, bool on) {
    u64 n = 1ull << lg_n; Ptr a = up(in), b; OK(cuMemAlloc(&b, in.size() * 4)); allocated.push_back(b);
    Prime f{P, u32(-P), 0, 0, {}}; u32 x = P; for (int i = 0; i < 5; i++) x *= 2 - P * x; f.inv = x;
    u32 w32 = root(5, inverse); for (int i = 0; i < 16; i++) f.unit[i] = shoup(power(w32, i));
    u32 gi = inv(g), nin = inv(n % P); bool coset = g != 1;
    if (cut.size() == 1) {
        int s = lg_n, c = lgc(s); std::vector<Tw> before(n), after(n);
        for (u64 i = 0; i < n; i++) before[i] = shoup(power(g, i)), after[i] = shoup(mul(nin, power(gi, i)));
        Ptr bf = !inverse && coset ? up(before) : 0, af = inverse ? up(after) : 0;
        u32 flags = (ir ? 1 : 0) | (on ? 2 : 0);
        launch("ntt31_single_" + std::to_string(s), (batch + (1 << c) - 1) >> c, 1 << (s + c - (s + 1) / 2), 4 << (s + c), a, b, up(tile_twiddles(s, inverse)), bf, af, u32(batch), flags, f);
    } else {
        int block = lg_n; Ptr from = a;
        for (size_t i = 0; i < cut.size(); i++) {
            int s = cut[i], c = lgc(s), k0 = (s + 1) / 2; u32 threads = 1 << (s + c - k0), shared = 4 << (s + c); u64 grid = (n * batch) >> (s + c);
            std::vector<Tw> factors(1 << s);
            if (i + 1 < cut.size()) {
                int cols = block - s; u32 w = root(block, inverse);
                std::vector<u32> starts(1ull << (k0 + cols)), steps(1ull << cols);
                // Forward: the factor g^column of the first pass. Inverse: h^frequency, where a frequency of
                // this pass counts 2^(lg_n - block) in the output's index.
                for (u32 col = 0; col < 1u << cols; col++) {
                    u32 r = power(w, col), extra = 1;
                    if (coset && !inverse && i == 0) extra = power(g, col);
                    if (coset && inverse) r = mul(r, power(gi, 1ull << (lg_n - block)));
                    for (int h = 0; h < 1 << k0; h++) starts[(u64(h) << cols) + col] = mont(mul(extra, power(r, rev(h, k0))));
                    steps[col] = mont(power(r, 1 << k0));
                }
                u32 flags = 0;
                if (i == 0 && ir) flags |= 1;
                if (i == 0 && coset && !inverse) { flags |= 4; for (int j = 0; j < 1 << s; j++) factors[j] = shoup(power(g, u64(j) << cols)); }
                Ptr to = i == 0 && ir ? b : from;
                launch("ntt31_columns_" + std::to_string(s), grid, threads, shared, from, to, up(tile_twiddles(s, inverse)), up(starts), up(steps), up(factors), u32(block), flags, f);
                from = to; block -= s;
            } else {
                u32 flags = on ? 2 : 0;
                if (inverse) { flags |= 4; for (int k = 0; k < 1 << s; k++) factors[k] = shoup(mul(nin, coset ? power(gi, u64(k) << (lg_n - s)) : 1)); }
                Ptr to = on ? (from == a ? b : a) : from;
                launch("ntt31_last_" + std::to_string(s), grid, threads, shared, from, to, up(tile_twiddles(s, inverse)), up(factors), u32(lg_n), flags, f);
                from = to;
            }
        }
        b = from;
    }
    std::vector<u32> out(in.size()); OK(toH(out.data(), b, out.size() * 4));
    for (Ptr p : allocated) OK(freeD(p));
    allocated.clear(); return out;
}
// A plain radix-2 transform, natural to natural.
std::vector<u32> plain(std::vector<u32> x, int lg_n, bool inverse, u32 g) {
    u64 n = 1ull << lg_n; u32 gi = inv(g);
    if (!inverse) { u32 c = 1; for (auto& v : x) v = mul(v, c), c = mul(c, g); }
    for (u64 i = 0; i < n; i++) { u64 j = rev(i, lg_n); if (i < j) std::swap(x[i], x[j]); }
    for (int s = 1; s <= lg_n; s++) { u32 w = root(s, inverse); u64 h = 1ull << (s - 1);
        for (u64 b = 0; b < n; b += 2 * h) { u32 c = 1; for (u64 j = 0; j < h; j++, c = mul(c, w)) { u32 a = x[b + j], t = mul(x[b + j + h], c); x[b + j] = (u64(a) + t) % P; x[b + j + h] = (u64(a) + P - t) % P; } } }
    if (inverse) { u32 c = inv(n % P); for (auto& v : x) v = mul(v, c), c = mul(c, gi); }
    return x;
}
int main(int argc, char** argv) {
    lib = dlopen(argc > 1 ? argv[1] : "/tmp/h/k31/out/libcuda.so", RTLD_NOW); if (!lib) { puts(dlerror()); return 1; }
    OK(sym<int (*)(unsigned)>("cuInit")(0)); int dev; OK(sym<int (*)(int*, int)>("cuDeviceGet")(&dev, 0));
    void* ctx; OK(sym<int (*)(void**, int)>("cuDevicePrimaryCtxRetain")(&ctx, dev)); OK(sym<int (*)(void*)>("cuCtxSetCurrent")(ctx));
    OK(sym<int (*)(void**, const void*)>("cuModuleLoadData")(&module, "emulated:ntt31/passes\0"));
    cuMemAlloc = sym<decltype(cuMemAlloc)>("cuMemAlloc_v2"); toD = sym<decltype(toD)>("cuMemcpyHtoD_v2"); toH = sym<decltype(toH)>("cuMemcpyDtoH_v2"); freeD = sym<decltype(freeD)>("cuMemFree_v2");
    getFunction = sym<decltype(getFunction)>("cuModuleGetFunction"); launchKernel = sym<decltype(launchKernel)>("cuLaunchKernel"); setAttr = sym<decltype(setAttr)>("cuFuncSetAttribute"); sync_ = sym<decltype(sync_)>("cuCtxSynchronize");
    std::vector<std::pair<u32, u32>> primes = {{7340033, 3}, {104857601, 3}, {469762049, 3}, {998244353, 3}, {1811939329, 13}, {2013265921, 31}, {2130706433, 3}};
    std::vector<std::vector<int>> cuts; for (int s = 1; s <= 10; s++) cuts.push_back({s});
    for (int a = 5; a <= 10; a++) for (int b = 5; b <= 10; b++) if (a + b <= 15 && b >= lgc(a) && a >= lgc(b)) cuts.push_back({a, b});
    cuts.push_back({5, 5, 5}); cuts.push_back({5, 6, 5}); cuts.push_back({6, 5, 5}); cuts.push_back({8, 8}); 
    int bad = 0, count = 0;
    for (auto& cut : cuts) {
        int lg_n = 0; for (int s : cut) lg_n += s;
        auto [p, g] = primes[count % 7]; P = p, G = g;
        int batch = cut.size() == 1 ? 37 : 2; u64 n = 1ull << lg_n;
        for (int bits = 0; bits < 16; bits++) {
            bool inverse = bits & 1, ir = bits & 2, on = bits & 4; u32 shift = bits & 8 ? G : 1;
            if (lg_n > 12 && (bits * 7 + lg_n) % 3) continue;
            std::vector<u32> in(n * batch); u64 state = bits + 77;
            for (auto& v : in) state = state * 6364136223846793005ull + 1442695040888963407ull, v = u32(state >> 33) % P;
            in[0] = P - 1; in[n - 1] = P - 1;
            auto out = transform(in, lg_n, batch, cut, inverse, shift, ir, on);
            bool ok = true;
            for (int r = 0; r < batch; r++) {
                std::vector<u32> x(n); for (u64 i = 0; i < n; i++) x[i] = in[r * n + (ir ? rev(i, lg_n) : i)];
                auto y = plain(x, lg_n, inverse, shift);
                for (u64 i = 0; i < n; i++) ok &= out[r * n + (on ? i : rev(i, lg_n))] == y[i];
            }
            if (!ok) { bad++; printf("WRONG cut"); for (int s : cut) printf(" %d", s); printf(" inverse %d ir %d on %d coset %d p %u\n", inverse, ir, on, shift != 1, P); }
        }
        count++;
    }
    printf("%d cuts, %d wrong\n", count, bad);
}
