// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size5;
    uint size6;
    uint size7;
    uint size8;
    uint size9;
    uint size10;
};

struct Params {
    uint zero;
    uint flags;
    uint rows;
    uint inputs;
    uint first_row;
    uint in_stride;
    uint out_stride;
    uint other_stride;
    uint other_offset;
    uint heads;
    uint kv_heads;
    uint head_dim;
    uint pairs;
    uint window;
    uint slots;
    uint ring;
    uint owns;
    uint block;
    uint count;
    uint kv_values;
    uint kv_key_scales;
    uint kv_value_scales;
    uint partials;
    float input_scale;
    float output_scale;
    float up_scale;
    float next_scale;
    float factor;
    float scalar;
    uint stream_in;
    uint stream_out;
    float join_scale;
};
struct Column {
    uint token;
    uint position;
};
struct type_7 {
    metal::float4 inner[8];
};
struct type_8 {
    uint inner[7];
};
struct type_10 {
    metal::float4 inner[384];
};
struct type_11 {
    float inner[32];
};
struct type_12 {
    int inner[256];
};
struct type_13 {
    metal::float4 inner[2];
};
typedef uint type_14[1];
typedef metal::uint4 type_15[1];
typedef metal::float4 type_16[1];
struct type_17 {
    uint inner[2];
};
struct type_18 {
    metal::uint4 inner[2];
};
struct type_19 {
    float inner[8];
};
typedef float type_20[1];
constant uint HIDDEN = 1536u;
constant uint EARLY_ENTRY = 1u;
constant bool NATIVE_HALF = true;
constant bool REASSOCIATES = true;
constant type_8 EXP_COEFFICIENTS = type_8 {{984945178u, 1007230193u, 1026206841u, 1042983497u, 1056964606u, 1065353216u, 1065353216u}};
constant uint JOIN = 1u;
constant uint NORM = 2u;
constant uint VECTORS = 384u;
constant uint THREADS = 256u;
constant uint COUNT = 2u;

float fused(
    float a,
    float b,
    float c
) {
    return metal::fma(a, b, c);
}

metal::float4 fused4_(
    metal::float4 a_1,
    metal::float4 b_1,
    metal::float4 c_1
) {
    return metal::fma(a_1, b_1, c_1);
}

float keep(
    float x,
    constant Params& params
) {
    uint _e4 = params.zero;
    return as_type<float>(as_type<uint>(x) ^ _e4);
}

metal::float4 keep4_(
    metal::float4 x_1,
    constant Params& params
) {
    uint _e4 = params.zero;
    return as_type<metal::float4>(as_type<metal::uint4>(x_1) ^ metal::uint4(_e4));
}

float added(
    float x_2,
    constant Params& params
) {
    if (REASSOCIATES) {
        float _e2 = keep(x_2, params);
        return _e2;
    }
    return x_2;
}

metal::float4 added4_(
    metal::float4 x_3,
    constant Params& params
) {
    if (REASSOCIATES) {
        metal::float4 _e2 = keep4_(x_3, params);
        return _e2;
    }
    return x_3;
}

float power_of_two(
    int e
) {
    return as_type<float>(static_cast<uint>(as_type<int>(as_type<uint>(e) + as_type<uint>(127))) << 23u);
}

uint naga_f2u32(float value) {
    return static_cast<uint>(metal::clamp(value, 0.0, 4294967000.0));
}

int naga_neg(int val) {
    return as_type<int>(-as_type<uint>(val));
}

float divide(
    float a_2,
    float b_2
) {
    bool local_1 = {};
    bool local_2 = {};
    bool local_3 = {};
    bool local_4 = {};
    bool local_5 = {};
    uint q = {};
    int r = {};
    int i = 0;
    bool local_6 = {};
    int i_1 = 0;
    bool local_7 = {};
    uint x_9 = as_type<uint>(a_2);
    uint y_2 = as_type<uint>(b_2);
    uint ex = (x_9 >> 23u) & 255u;
    uint ey = (y_2 >> 23u) & 255u;
    uint mx = (x_9 & 8388607u) | 8388608u;
    uint my = (y_2 & 8388607u) | 8388608u;
    bool big = mx >= my;
    uint shift_1 = big ? 23u : 24u;
    int e_1 = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(static_cast<int>(ex)) - as_type<uint>(static_cast<int>(ey)))) + as_type<uint>(127))) - as_type<uint>(big ? 0 : 1));
    if (!((ex == 0u))) {
        local_1 = ey == 0u;
    } else {
        local_1 = true;
    }
    bool _e41 = local_1;
    if (!(_e41)) {
        local_2 = ex == 255u;
    } else {
        local_2 = true;
    }
    bool _e48 = local_2;
    if (!(_e48)) {
        local_3 = ey == 255u;
    } else {
        local_3 = true;
    }
    bool _e55 = local_3;
    if (!(_e55)) {
        local_4 = e_1 <= 0;
    } else {
        local_4 = true;
    }
    bool _e62 = local_4;
    if (!(_e62)) {
        local_5 = e_1 >= 255;
    } else {
        local_5 = true;
    }
    bool _e69 = local_5;
    if (_e69) {
        return a_2 / b_2;
    }
    float seed = as_type<float>((mx & 8388607u) | 1065353216u) / as_type<float>((my & 8388607u) | 1065353216u);
    float _e83 = power_of_two(static_cast<int>(shift_1));
    q = naga_f2u32(seed * _e83);
    uint _e88 = q;
    r = static_cast<int>((mx << shift_1) - (_e88 * my));
    int divisor = static_cast<int>(my);
    uint2 loop_bound = uint2(4294967295u);
    bool loop_init = true;
    while(true) {
        if (metal::all(loop_bound == uint2(0u))) { break; }
        loop_bound -= uint2(loop_bound.y == 0u, 1u);
        if (!loop_init) {
            int _e113 = i;
            i = as_type<int>(as_type<uint>(_e113) + as_type<uint>(1));
        }
        loop_init = false;
        int _e96 = i;
        if (_e96 < 64) {
            int _e101 = r;
            int _e102 = r;
            local_6 = as_type<int>(as_type<uint>(_e101) + as_type<uint>(_e102)) > divisor;
        } else {
            local_6 = false;
        }
        bool _e106 = local_6;
        if (_e106) {
        } else {
            break;
        }
        {
            uint _e107 = q;
            q = _e107 + 1u;
            int _e110 = r;
            r = as_type<int>(as_type<uint>(_e110) - as_type<uint>(divisor));
        }
    }
    uint2 loop_bound_1 = uint2(4294967295u);
    bool loop_init_1 = true;
    while(true) {
        if (metal::all(loop_bound_1 == uint2(0u))) { break; }
        loop_bound_1 -= uint2(loop_bound_1.y == 0u, 1u);
        if (!loop_init_1) {
            int _e135 = i_1;
            i_1 = as_type<int>(as_type<uint>(_e135) + as_type<uint>(1));
        }
        loop_init_1 = false;
        int _e117 = i_1;
        if (_e117 < 64) {
            int _e122 = r;
            int _e123 = r;
            local_7 = as_type<int>(as_type<uint>(_e122) + as_type<uint>(_e123)) < naga_neg(divisor);
        } else {
            local_7 = false;
        }
        bool _e128 = local_7;
        if (_e128) {
        } else {
            break;
        }
        {
            uint _e129 = q;
            q = _e129 - 1u;
            int _e132 = r;
            r = as_type<int>(as_type<uint>(_e132) + as_type<uint>(divisor));
        }
    }
    uint _e143 = q;
    return as_type<float>(((x_9 ^ y_2) & 2147483648u) | ((static_cast<uint>(e_1) << 23u) + (_e143 - 8388608u)));
}

int naga_div(int lhs, int rhs) {
    return lhs / metal::select(rhs, 1, (lhs == (-2147483647 - 1) & rhs == -1) | (rhs == 0));
}

float square_root(
    float x_4
) {
    uint s = {};
    int r_1 = {};
    int i_2 = 0;
    bool local_8 = {};
    int i_3 = 0;
    bool local_9 = {};
    uint bits = as_type<uint>(x_4);
    int e_2 = as_type<int>(as_type<uint>(static_cast<int>(bits >> 23u)) - as_type<uint>(127));
    int odd = e_2 & 1;
    uint m_1 = (bits & 8388607u) | 8388608u;
    float seed_1 = metal::sqrt(as_type<float>((m_1 & 8388607u) | 1065353216u) * static_cast<float>(as_type<int>(as_type<uint>(1) + as_type<uint>(odd))));
    s = naga_f2u32(seed_1 * 8388608.0);
    uint _e31 = s;
    uint _e32 = s;
    r_1 = static_cast<int>((m_1 << static_cast<uint>(as_type<int>(as_type<uint>(23) + as_type<uint>(odd)))) - (_e31 * _e32));
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            int _e62 = i_2;
            i_2 = as_type<int>(as_type<uint>(_e62) + as_type<uint>(1));
        }
        loop_init_2 = false;
        int _e39 = i_2;
        if (_e39 < 64) {
            int _e44 = r_1;
            uint _e45 = s;
            local_8 = _e44 > static_cast<int>(_e45);
        } else {
            local_8 = false;
        }
        bool _e49 = local_8;
        if (_e49) {
        } else {
            break;
        }
        {
            int _e50 = r_1;
            uint _e51 = s;
            uint _e52 = s;
            r_1 = as_type<int>(as_type<uint>(_e50) - as_type<uint>(static_cast<int>((_e51 + _e52) + 1u)));
            uint _e58 = s;
            s = _e58 + 1u;
        }
    }
    uint2 loop_bound_3 = uint2(4294967295u);
    bool loop_init_3 = true;
    while(true) {
        if (metal::all(loop_bound_3 == uint2(0u))) { break; }
        loop_bound_3 -= uint2(loop_bound_3.y == 0u, 1u);
        if (!loop_init_3) {
            int _e90 = i_3;
            i_3 = as_type<int>(as_type<uint>(_e90) + as_type<uint>(1));
        }
        loop_init_3 = false;
        int _e66 = i_3;
        if (_e66 < 64) {
            int _e71 = r_1;
            uint _e72 = s;
            local_9 = _e71 <= naga_neg(static_cast<int>(_e72));
        } else {
            local_9 = false;
        }
        bool _e77 = local_9;
        if (_e77) {
        } else {
            break;
        }
        {
            int _e78 = r_1;
            uint _e79 = s;
            uint _e80 = s;
            r_1 = as_type<int>(as_type<uint>(_e78) + as_type<uint>(static_cast<int>((_e79 + _e80) - 1u)));
            uint _e86 = s;
            s = _e86 - 1u;
        }
    }
    uint _e100 = s;
    return as_type<float>((static_cast<uint>(as_type<int>(as_type<uint>(naga_div(as_type<int>(as_type<uint>(e_2) - as_type<uint>(odd)), 2)) + as_type<uint>(127))) << 23u) + (_e100 - 8388608u));
}

float round_bits(
    uint m,
    uint rest,
    uint shift
) {
    bool local_10 = {};
    bool local_11 = {};
    uint half_ = 1u << (shift - 1u);
    if (!((rest > half_))) {
        if (rest == half_) {
            local_11 = (m & 1u) == 1u;
        } else {
            local_11 = false;
        }
        bool _e19 = local_11;
        local_10 = _e19;
    } else {
        local_10 = true;
    }
    bool up = local_10;
    float _e28 = power_of_two(static_cast<int>(shift));
    return static_cast<float>(m + (up ? 1u : 0u)) * _e28;
}

int naga_abs(int val) {
    return metal::select(as_type<int>(-as_type<uint>(val)), val, val >= 0);
}

float int_to_float(
    int i_4
) {
    uint m_2 = static_cast<uint>(naga_abs(i_4));
    if (m_2 < 16777216u) {
        return static_cast<float>(i_4);
    }
    uint shift_2 = 8u - metal::clz(m_2);
    float _e15 = round_bits(m_2 >> shift_2, m_2 & ((1u << shift_2) - 1u), shift_2);
    return (i_4 < 0) ? -(_e15) : _e15;
}

float wide_to_float(
    int high_in,
    uint low_in
) {
    int high = {};
    uint low = {};
    float y = {};
    high = high_in;
    low = low_in;
    int _e4 = high;
    bool negative = _e4 < 0;
    if (negative) {
        int _e7 = high;
        uint _e9 = low;
        high = as_type<int>(as_type<uint>(naga_neg(_e7)) - as_type<uint>((_e9 > 0u) ? 1 : 0));
        uint _e17 = low;
        low = (256u - _e17) & 255u;
    }
    int _e21 = high;
    uint h_1 = static_cast<uint>(_e21);
    if (h_1 < 65536u) {
        uint _e28 = low;
        y = static_cast<float>((h_1 * 256u) + _e28);
    } else {
        uint shift_3 = 16u - metal::clz(h_1);
        if (shift_3 <= 8u) {
            uint _e39 = low;
            uint _e42 = low;
            float _e48 = round_bits((h_1 << (8u - shift_3)) | (_e39 >> shift_3), _e42 & ((1u << shift_3) - 1u), shift_3);
            y = _e48;
        } else {
            uint lost = shift_3 - 8u;
            uint _e59 = low;
            float _e61 = round_bits(h_1 >> lost, ((h_1 & ((1u << lost) - 1u)) << 8u) | _e59, shift_3);
            y = _e61;
        }
    }
    float _e62 = y;
    float _e63 = y;
    return negative ? -(_e63) : _e62;
}

int naga_f2i32(float value) {
    return static_cast<int>(metal::clamp(value, -2147483600.0, 2147483500.0));
}

int quantise(
    float x_5,
    float scale
) {
    float n_2 = {};
    if ((as_type<uint>(x_5) & 2147483647u) > 2139095040u) {
        return 0;
    }
    float near = x_5 / scale;
    if (near >= 130.0) {
        return 127;
    }
    if (near <= -130.0) {
        return -128;
    }
    n_2 = metal::rint(near);
    float _e17 = n_2;
    if (metal::abs(metal::abs(near - _e17) - 0.5) < 0.001) {
        float _e25 = divide(x_5, scale);
        n_2 = metal::rint(_e25);
    }
    float _e27 = n_2;
    return metal::clamp(naga_f2i32(_e27), -128, 127);
}

uint pack(
    int a_3,
    int b_3,
    int c_2,
    int d
) {
    return (((static_cast<uint>(a_3) & 255u) | ((static_cast<uint>(b_3) & 255u) << 8u)) | ((static_cast<uint>(c_2) & 255u) << 16u)) | (static_cast<uint>(d) << 24u);
}

uint quantise4_(
    metal::float4 x_6,
    float scale_1
) {
    metal::int4 code = metal::int4 {};
    int i_5 = 0;
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            int _e15 = i_5;
            i_5 = as_type<int>(as_type<uint>(_e15) + as_type<uint>(1));
        }
        loop_init_4 = false;
        int _e6 = i_5;
        if (_e6 < 4) {
        } else {
            break;
        }
        {
            int _e9 = i_5;
            int _e11 = i_5;
            int _e13 = quantise(x_6[_e11], scale_1);
            code[_e9] = _e13;
        }
    }
    int _e18 = code.x;
    int _e20 = code.y;
    int _e22 = code.z;
    int _e24 = code.w;
    uint _e25 = pack(_e18, _e20, _e22, _e24);
    return _e25;
}

metal::float4 divide4_(
    metal::float4 a_4,
    float b_4
) {
    metal::float4 y_1 = metal::float4 {};
    int i_6 = 0;
    uint2 loop_bound_5 = uint2(4294967295u);
    bool loop_init_5 = true;
    while(true) {
        if (metal::all(loop_bound_5 == uint2(0u))) { break; }
        loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
        if (!loop_init_5) {
            int _e15 = i_6;
            i_6 = as_type<int>(as_type<uint>(_e15) + as_type<uint>(1));
        }
        loop_init_5 = false;
        int _e6 = i_6;
        if (_e6 < 4) {
        } else {
            break;
        }
        {
            int _e9 = i_6;
            int _e11 = i_6;
            float _e13 = divide(a_4[_e11], b_4);
            y_1[_e9] = _e13;
        }
    }
    metal::float4 _e17 = y_1;
    return _e17;
}

metal::int4 codes4_(
    uint word
) {
    int w = as_type<int>(word);
    return metal::int4(w << 24u, w << 16u, w << 8u, w) >> metal::uint4(24u);
}

float reciprocal_root(
    float mean_square,
    constant Params& params
) {
    float _e4 = keep(mean_square + 0.000001, params);
    float _e5 = square_root(_e4);
    float _e6 = divide(1.0, _e5);
    return _e6;
}

float tree(
    type_7 a_5,
    constant Params& params
) {
    metal::float4 _e4 = added4_(a_5.inner[0] + a_5.inner[4], params);
    metal::float4 _e8 = added4_(a_5.inner[1] + a_5.inner[5], params);
    metal::float4 _e12 = added4_(a_5.inner[2] + a_5.inner[6], params);
    metal::float4 _e16 = added4_(a_5.inner[3] + a_5.inner[7], params);
    metal::float4 _e18 = added4_(_e4 + _e12, params);
    metal::float4 _e20 = added4_(_e8 + _e16, params);
    metal::float4 _e22 = added4_(_e18 + _e20, params);
    float _e26 = added(_e22.x + _e22.z, params);
    float _e30 = added(_e22.y + _e22.w, params);
    float _e32 = added(_e26 + _e30, params);
    return _e32;
}

float exponential(
    float x_7,
    constant Params& params
) {
    float p = {};
    int i_7 = 1;
    if (!((x_7 >= -87.0))) {
        return 0.0;
    }
    float _e8 = keep(x_7 * as_type<float>(1069066811u), params);
    float n_8 = metal::rint(_e8);
    float _e16 = fused(n_8, -(as_type<float>(1060205056u)), x_7);
    float _e17 = fused(n_8, -(as_type<float>(901758606u)), _e16);
    p = as_type<float>(984945178u);
    uint2 loop_bound_6 = uint2(4294967295u);
    bool loop_init_6 = true;
    while(true) {
        if (metal::all(loop_bound_6 == uint2(0u))) { break; }
        loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
        if (!loop_init_6) {
            int _e33 = i_7;
            i_7 = as_type<int>(as_type<uint>(_e33) + as_type<uint>(1));
        }
        loop_init_6 = false;
        int _e23 = i_7;
        if (_e23 < 7) {
        } else {
            break;
        }
        {
            float _e26 = p;
            int _e28 = i_7;
            float _e31 = fused(_e26, _e17, as_type<float>(EXP_COEFFICIENTS.inner[_e28]));
            p = _e31;
        }
    }
    float _e35 = p;
    float _e37 = power_of_two(naga_f2i32(n_8));
    float _e39 = keep(_e35 * _e37, params);
    return _e39;
}

uint to_half(
    float x_8
) {
    bool local_12 = {};
    bool local_13 = {};
    uint bits_1 = as_type<uint>(x_8);
    uint sign = (bits_1 >> 16u) & 32768u;
    uint magnitude = bits_1 & 2147483647u;
    if (magnitude > 2139095040u) {
        return sign;
    }
    if (magnitude >= 1199562752u) {
        return sign | 31743u;
    }
    if (magnitude < 947912704u) {
        if (magnitude <= 855638016u) {
            return sign;
        }
        uint shift_4 = 126u - (magnitude >> 23u);
        uint m_3 = (magnitude & 8388607u) | 8388608u;
        uint rest_1 = m_3 & ((1u << shift_4) - 1u);
        uint half_1 = 1u << (shift_4 - 1u);
        uint units_1 = m_3 >> shift_4;
        if (!((rest_1 > half_1))) {
            if (rest_1 == half_1) {
                local_13 = (units_1 & 1u) == 1u;
            } else {
                local_13 = false;
            }
            bool _e50 = local_13;
            local_12 = _e50;
        } else {
            local_12 = true;
        }
        bool _e52 = local_12;
        return sign | (units_1 + (_e52 ? 1u : 0u));
    }
    uint body = magnitude - 939524096u;
    uint rounded = (body + 4095u) + ((body >> 13u) & 1u);
    return sign | metal::min(rounded >> 13u, 31743u);
}

float from_half(
    uint h
) {
    uint sign_1 = (h & 32768u) << 16u;
    uint e_3 = (h >> 10u) & 31u;
    uint f = h & 1023u;
    if (e_3 == 0u) {
        return as_type<float>(as_type<uint>(static_cast<float>(f) * as_type<float>(864026624u)) | sign_1);
    }
    return as_type<float>((sign_1 | ((e_3 + 112u) << 23u)) | (f << 13u));
}

metal::float2 halves(
    uint word_1
) {
    if (NATIVE_HALF) {
        return float2(as_type<half2>(word_1));
    }
    float _e5 = from_half(word_1 & 65535u);
    float _e8 = from_half(word_1 >> 16u);
    return metal::float2(_e5, _e8);
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

float stream_at(
    uint i_8,
    threadgroup type_10& stream
) {
    float _e8 = stream.inner[naga_div(i_8, 4u)][naga_mod(i_8, 4u)];
    return _e8;
}

float enter(
    uint column,
    bool writes,
    uint local_14,
    constant Params& params,
    threadgroup type_10& stream,
    threadgroup type_11& lanes,
    threadgroup type_12& squares,
    thread type_13& own_norms,
    device type_14 const& joining,
    device type_15& hidden,
    device type_16 const& norms,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_17 codes_in = {};
    type_18 before = {};
    type_13 joining_norms = {};
    uint n_3 = 0u;
    int sum = 0;
    uint n_4 = 0u;
    uint i_9 = 16u;
    uint i_10 = 0u;
    uint n_5 = 0u;
    uint n_6 = 0u;
    float lane = 0.0;
    bool local_15 = {};
    uint i_11 = {};
    type_19 eight = {};
    uint j = {};
    uint i_12 = {};
    type_7 all = {};
    uint i_13 = 0u;
    uint _e5 = params.stream_in;
    uint source = naga_div(_e5, 4u) + (column * VECTORS);
    uint _e13 = params.stream_out;
    uint target_at = naga_div(_e13, 4u) + (column * VECTORS);
    uint _e21 = params.flags;
    bool joins = (_e21 & JOIN) != 0u;
    uint _e28 = params.flags;
    bool norm = (_e28 & NORM) != 0u;
    uint2 loop_bound_7 = uint2(4294967295u);
    bool loop_init_7 = true;
    while(true) {
        if (metal::all(loop_bound_7 == uint2(0u))) { break; }
        loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
        if (!loop_init_7) {
            uint _e76 = n_3;
            n_3 = _e76 + 1u;
        }
        loop_init_7 = false;
        uint _e38 = n_3;
        if (_e38 < COUNT) {
        } else {
            break;
        }
        {
            uint _e41 = n_3;
            uint i_14 = metal::min(local_14 + (_e41 * THREADS), 383u);
            if (joins) {
                uint _e47 = n_3;
                uint _e54 = joining[(column * VECTORS) + i_14];
                codes_in.inner[_e47] = _e54;
            }
            if (true) {
                uint _e56 = n_3;
                metal::uint4 _e61 = hidden[source + i_14];
                before.inner[_e56] = _e61;
                if (joins) {
                    uint _e62 = n_3;
                    metal::float4 _e66 = norms[i_14];
                    joining_norms.inner[_e62] = _e66;
                }
                if (norm) {
                    uint _e68 = n_3;
                    metal::float4 _e74 = norms[VECTORS + i_14];
                    own_norms.inner[_e68] = _e74;
                }
            }
        }
    }
    if (joins) {
        uint2 loop_bound_8 = uint2(4294967295u);
        bool loop_init_8 = true;
        while(true) {
            if (metal::all(loop_bound_8 == uint2(0u))) { break; }
            loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
            if (!loop_init_8) {
                uint _e101 = n_4;
                n_4 = _e101 + 1u;
            }
            loop_init_8 = false;
            uint _e82 = n_4;
            if (_e82 < COUNT) {
            } else {
                break;
            }
            {
                uint _e85 = n_4;
                if ((local_14 + (_e85 * THREADS)) < VECTORS) {
                    int _e91 = sum;
                    uint _e92 = n_4;
                    uint _e94 = codes_in.inner[_e92];
                    uint _e95 = n_4;
                    uint _e97 = codes_in.inner[_e95];
                    packed_char4 reinterpreted_packed_char4_e94 = as_type<packed_char4>(_e94);
                    packed_char4 reinterpreted_packed_char4_e97 = as_type<packed_char4>(_e97);
                    sum = as_type<int>(as_type<uint>(_e91) + as_type<uint>(( + reinterpreted_packed_char4_e94[0] * reinterpreted_packed_char4_e97[0] + reinterpreted_packed_char4_e94[1] * reinterpreted_packed_char4_e97[1] + reinterpreted_packed_char4_e94[2] * reinterpreted_packed_char4_e97[2] + reinterpreted_packed_char4_e94[3] * reinterpreted_packed_char4_e97[3])));
                }
            }
        }
        int _e105 = sum;
        squares.inner[local_14] = _e105;
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        if (local_14 < 16u) {
            uint2 loop_bound_9 = uint2(4294967295u);
            bool loop_init_9 = true;
            while(true) {
                if (metal::all(loop_bound_9 == uint2(0u))) { break; }
                loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
                if (!loop_init_9) {
                    uint _e120 = i_9;
                    i_9 = _e120 + 16u;
                }
                loop_init_9 = false;
                uint _e110 = i_9;
                if (_e110 < THREADS) {
                } else {
                    break;
                }
                {
                    int _e113 = sum;
                    uint _e115 = i_9;
                    int _e118 = squares.inner[local_14 + _e115];
                    sum = as_type<int>(as_type<uint>(_e113) + as_type<uint>(_e118));
                }
            }
            int _e125 = sum;
            squares.inner[local_14] = _e125;
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        sum = 0;
        uint2 loop_bound_10 = uint2(4294967295u);
        bool loop_init_10 = true;
        while(true) {
            if (metal::all(loop_bound_10 == uint2(0u))) { break; }
            loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
            if (!loop_init_10) {
                uint _e139 = i_10;
                i_10 = _e139 + 1u;
            }
            loop_init_10 = false;
            uint _e129 = i_10;
            if (_e129 < 16u) {
            } else {
                break;
            }
            {
                int _e132 = sum;
                uint _e134 = i_10;
                int _e136 = squares.inner[_e134];
                sum = as_type<int>(as_type<uint>(_e132) + as_type<uint>(_e136));
            }
        }
        int _e141 = sum;
        float _e142 = int_to_float(_e141);
        float scale_2 = params.join_scale;
        float _e147 = keep(scale_2 * scale_2, params);
        float _e149 = keep(_e142 * _e147, params);
        float _e151 = divide(_e149, 1536.0);
        float _e152 = reciprocal_root(_e151, params);
        uint2 loop_bound_11 = uint2(4294967295u);
        bool loop_init_11 = true;
        while(true) {
            if (metal::all(loop_bound_11 == uint2(0u))) { break; }
            loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
            if (!loop_init_11) {
                uint _e208 = n_5;
                n_5 = _e208 + 1u;
            }
            loop_init_11 = false;
            uint _e155 = n_5;
            if (_e155 < COUNT) {
            } else {
                break;
            }
            {
                uint _e158 = n_5;
                uint i_15 = local_14 + (_e158 * THREADS);
                if (i_15 < VECTORS) {
                    if (false) {
                        uint _e165 = n_5;
                        metal::uint4 _e170 = hidden[source + i_15];
                        before.inner[_e165] = _e170;
                        uint _e171 = n_5;
                        metal::float4 _e175 = norms[i_15];
                        joining_norms.inner[_e171] = _e175;
                    }
                    uint _e176 = n_5;
                    uint _e178 = codes_in.inner[_e176];
                    metal::int4 _e179 = codes4_(_e178);
                    metal::float4 _e182 = keep4_(static_cast<metal::float4>(_e179) * scale_2, params);
                    metal::float4 _e184 = keep4_(_e182 * _e152, params);
                    uint _e185 = n_5;
                    metal::float4 _e187 = joining_norms.inner[_e185];
                    metal::float4 _e189 = keep4_(_e184 * _e187, params);
                    uint _e190 = n_5;
                    metal::uint4 _e192 = before.inner[_e190];
                    metal::float4 _e195 = keep4_(as_type<metal::float4>(_e192) + _e189, params);
                    float _e198 = params.scalar;
                    metal::float4 _e200 = keep4_(_e195 * _e198, params);
                    stream.inner[i_15] = _e200;
                    if (writes) {
                        hidden[target_at + i_15] = as_type<metal::uint4>(_e200);
                    }
                }
            }
        }
    } else {
        uint2 loop_bound_12 = uint2(4294967295u);
        bool loop_init_12 = true;
        while(true) {
            if (metal::all(loop_bound_12 == uint2(0u))) { break; }
            loop_bound_12 -= uint2(loop_bound_12.y == 0u, 1u);
            if (!loop_init_12) {
                uint _e235 = n_6;
                n_6 = _e235 + 1u;
            }
            loop_init_12 = false;
            uint _e212 = n_6;
            if (_e212 < COUNT) {
            } else {
                break;
            }
            {
                uint _e215 = n_6;
                uint i_16 = local_14 + (_e215 * THREADS);
                if (i_16 < VECTORS) {
                    if (false) {
                        uint _e222 = n_6;
                        metal::uint4 _e227 = hidden[source + i_16];
                        before.inner[_e222] = _e227;
                    }
                    uint _e230 = n_6;
                    metal::uint4 _e232 = before.inner[_e230];
                    stream.inner[i_16] = as_type<metal::float4>(_e232);
                }
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (!(norm)) {
        return 0.0;
    }
    if (local_14 < 32u) {
        if (true) {
            local_15 = true;
        } else {
            local_15 = false;
        }
        bool _e248 = local_15;
        if (_e248) {
            i_11 = local_14;
            uint2 loop_bound_13 = uint2(4294967295u);
            bool loop_init_13 = true;
            while(true) {
                if (metal::all(loop_bound_13 == uint2(0u))) { break; }
                loop_bound_13 -= uint2(loop_bound_13.y == 0u, 1u);
                if (!loop_init_13) {
                    uint _e301 = i_11;
                    i_11 = _e301 + 256u;
                }
                loop_init_13 = false;
                uint _e250 = i_11;
                if (_e250 < HIDDEN) {
                } else {
                    break;
                }
                {
                    uint _e253 = i_11;
                    float _e254 = stream_at(_e253, stream);
                    uint _e255 = i_11;
                    float _e258 = stream_at(_e255 + 32u, stream);
                    uint _e259 = i_11;
                    float _e262 = stream_at(_e259 + 64u, stream);
                    uint _e263 = i_11;
                    float _e266 = stream_at(_e263 + 96u, stream);
                    uint _e267 = i_11;
                    float _e270 = stream_at(_e267 + 128u, stream);
                    uint _e271 = i_11;
                    float _e274 = stream_at(_e271 + 160u, stream);
                    uint _e275 = i_11;
                    float _e278 = stream_at(_e275 + 192u, stream);
                    uint _e279 = i_11;
                    float _e282 = stream_at(_e279 + 224u, stream);
                    type_19 x_10 = type_19 {{_e254, _e258, _e262, _e266, _e270, _e274, _e278, _e282}};
                    eight = x_10;
                    j = 0u;
                    uint2 loop_bound_14 = uint2(4294967295u);
                    bool loop_init_14 = true;
                    while(true) {
                        if (metal::all(loop_bound_14 == uint2(0u))) { break; }
                        loop_bound_14 -= uint2(loop_bound_14.y == 0u, 1u);
                        if (!loop_init_14) {
                            uint _e299 = j;
                            j = _e299 + 1u;
                        }
                        loop_init_14 = false;
                        uint _e287 = j;
                        if (_e287 < 8u) {
                        } else {
                            break;
                        }
                        {
                            uint _e290 = j;
                            float _e292 = eight.inner[_e290];
                            uint _e293 = j;
                            float _e295 = eight.inner[_e293];
                            float _e296 = lane;
                            float _e297 = fused(_e292, _e295, _e296);
                            lane = _e297;
                        }
                    }
                }
            }
        } else {
            i_12 = local_14;
            uint2 loop_bound_15 = uint2(4294967295u);
            bool loop_init_15 = true;
            while(true) {
                if (metal::all(loop_bound_15 == uint2(0u))) { break; }
                loop_bound_15 -= uint2(loop_bound_15.y == 0u, 1u);
                if (!loop_init_15) {
                    uint _e312 = i_12;
                    i_12 = _e312 + 32u;
                }
                loop_init_15 = false;
                uint _e305 = i_12;
                if (_e305 < HIDDEN) {
                } else {
                    break;
                }
                {
                    uint _e308 = i_12;
                    float _e309 = stream_at(_e308, stream);
                    float _e310 = lane;
                    float _e311 = fused(_e309, _e309, _e310);
                    lane = _e311;
                }
            }
        }
        float _e317 = lane;
        lanes.inner[local_14] = _e317;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint2 loop_bound_16 = uint2(4294967295u);
    bool loop_init_16 = true;
    while(true) {
        if (metal::all(loop_bound_16 == uint2(0u))) { break; }
        loop_bound_16 -= uint2(loop_bound_16.y == 0u, 1u);
        if (!loop_init_16) {
            uint _e358 = i_13;
            i_13 = _e358 + 1u;
        }
        loop_init_16 = false;
        uint _e321 = i_13;
        if (_e321 < 8u) {
        } else {
            break;
        }
        {
            uint _e324 = i_13;
            uint _e328 = i_13;
            float _e331 = lanes.inner[4u * _e328];
            uint _e334 = i_13;
            float _e339 = lanes.inner[(4u * _e334) + 1u];
            uint _e342 = i_13;
            float _e347 = lanes.inner[(4u * _e342) + 2u];
            uint _e350 = i_13;
            float _e355 = lanes.inner[(4u * _e350) + 3u];
            all.inner[_e324] = metal::float4(_e331, _e339, _e347, _e355);
        }
    }
    type_7 _e360 = all;
    float _e361 = tree(_e360, params);
    float _e363 = divide(_e361, 1536.0);
    float _e364 = reciprocal_root(_e363, params);
    return _e364;
}

metal::float4 normed4_(
    uint local_16,
    uint n_7,
    float r_2,
    constant Params& params,
    threadgroup type_10& stream,
    thread type_13& own_norms,
    device type_16 const& norms,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_17 = local_16 + (n_7 * THREADS);
    metal::float4 x_11 = stream.inner[i_17];
    uint _e11 = params.flags;
    if ((_e11 & NORM) == 0u) {
        return x_11;
    }
    if (false) {
        metal::float4 _e23 = norms[VECTORS + i_17];
        own_norms.inner[n_7] = _e23;
    }
    metal::float4 _e25 = keep4_(x_11 * r_2, params);
    metal::float4 _e28 = own_norms.inner[n_7];
    metal::float4 _e30 = keep4_(_e25 * _e28, params);
    return _e30;
}
metal::int4 naga_f2i32(metal::float4 value) {
    return static_cast<metal::int4>(metal::clamp(value, -2147483600.0, 2147483500.0));
}


struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint local [[thread_index_in_threadgroup]]
, constant Params& params [[user(fake0)]]
, threadgroup type_10& stream
, threadgroup type_11& lanes
, threadgroup type_12& squares
, device type_14 const& joining [[user(fake0)]]
, device type_15& hidden [[user(fake0)]]
, device type_16 const& norms [[user(fake0)]]
, device type_16& floats [[user(fake0)]]
, device type_14& limbs [[user(fake0)]]
, device type_20& units [[user(fake0)]]
, threadgroup metal::atomic_uint& largest
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    type_13 own_norms = {};
    if (local == 0u) {
        stream = {};
        lanes = {};
        squares = {};
        metal::atomic_store_explicit(&largest, 0, metal::memory_order_relaxed);
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint top = 0u;
    uint n = 0u;
    uint n_1 = 0u;
    if (local == 0u) {
        metal::atomic_store_explicit(&largest, 0u, metal::memory_order_relaxed);
    }
    float _e8 = enter(group.y, true, local, params, stream, lanes, squares, own_norms, joining, hidden, norms, _buffer_sizes);
    uint2 loop_bound_17 = uint2(4294967295u);
    bool loop_init_17 = true;
    while(true) {
        if (metal::all(loop_bound_17 == uint2(0u))) { break; }
        loop_bound_17 -= uint2(loop_bound_17.y == 0u, 1u);
        if (!loop_init_17) {
            uint _e48 = n;
            n = _e48 + 1u;
        }
        loop_init_17 = false;
        uint _e13 = n;
        if (_e13 < COUNT) {
        } else {
            break;
        }
        {
            uint _e16 = n;
            if ((local + (_e16 * THREADS)) >= VECTORS) {
                continue;
            }
            uint _e22 = n;
            metal::float4 _e23 = normed4_(local, _e22, _e8, params, stream, own_norms, norms, _buffer_sizes);
            uint _e29 = n;
            floats[((group.y * VECTORS) + local) + (_e29 * THREADS)] = _e23;
            metal::uint4 bits_2 = as_type<metal::uint4>(_e23) & metal::uint4(2147483647u);
            uint _e38 = top;
            top = metal::max(_e38, metal::max(metal::max(bits_2.x, bits_2.y), metal::max(bits_2.z, bits_2.w)));
        }
    }
    uint _e51 = top;
    uint _e52 = metal::atomic_fetch_max_explicit(&largest, _e51, metal::memory_order_relaxed);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e54 = metal::atomic_load_explicit(&largest, metal::memory_order_relaxed);
    top = _e54;
    uint _e55 = top;
    uint _e65 = top;
    int shift_5 = (_e65 == 0u) ? 0 : as_type<int>(as_type<uint>(21) - as_type<uint>(metal::max(as_type<int>(as_type<uint>(static_cast<int>(_e55 >> 23u)) - as_type<uint>(127)), -100)));
    float _e70 = power_of_two(shift_5);
    if (local == 0u) {
        float _e77 = power_of_two(naga_neg(shift_5));
        units[group.y] = _e77;
    }
    uint2 loop_bound_18 = uint2(4294967295u);
    bool loop_init_18 = true;
    while(true) {
        if (metal::all(loop_bound_18 == uint2(0u))) { break; }
        loop_bound_18 -= uint2(loop_bound_18.y == 0u, 1u);
        if (!loop_init_18) {
            uint _e147 = n_1;
            n_1 = _e147 + 1u;
        }
        loop_init_18 = false;
        uint _e80 = n_1;
        if (_e80 < COUNT) {
        } else {
            break;
        }
        {
            uint _e83 = n_1;
            uint i_18 = local + (_e83 * THREADS);
            if (i_18 >= VECTORS) {
                continue;
            }
            uint _e89 = n_1;
            metal::float4 _e90 = normed4_(local, _e89, _e8, params, stream, own_norms, norms, _buffer_sizes);
            metal::float4 _e92 = keep4_(_e90 * _e70, params);
            metal::int4 fixed = naga_f2i32(metal::rint(_e92));
            metal::int4 low_1 = (fixed << metal::uint4(24u)) >> metal::uint4(24u);
            metal::int4 rest_2 = as_type<metal::int4>(as_type<metal::uint4>(fixed) - as_type<metal::uint4>(low_1)) >> metal::uint4(8u);
            metal::int4 middle = (rest_2 << metal::uint4(24u)) >> metal::uint4(24u);
            metal::int4 high_1 = as_type<metal::int4>(as_type<metal::uint4>(rest_2) - as_type<metal::uint4>(middle)) >> metal::uint4(8u);
            uint at = ((group.y * 3u) * VECTORS) + i_18;
            uint _e127 = pack(low_1.x, low_1.y, low_1.z, low_1.w);
            limbs[at] = _e127;
            uint _e136 = pack(middle.x, middle.y, middle.z, middle.w);
            limbs[at + VECTORS] = _e136;
            uint _e145 = pack(high_1.x, high_1.y, high_1.z, high_1.w);
            limbs[at + 768u] = _e145;
        }
    }
    return;
}
