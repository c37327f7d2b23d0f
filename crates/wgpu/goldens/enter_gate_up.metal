// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size5;
    uint size6;
    uint size12;
    uint size13;
    uint size14;
    uint size15;
    uint size16;
    uint size17;
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
    metal::int4 inner[256];
};
struct type_11 {
    metal::uint4 inner[4];
};
struct type_12 {
    metal::int4 inner[1];
};
struct type_13 {
    int inner[1];
};
typedef metal::uint4 type_14[1];
struct type_15 {
    uint inner[384];
};
struct type_16 {
    metal::float4 inner[384];
};
struct type_17 {
    float inner[32];
};
struct type_18 {
    int inner[256];
};
struct type_19 {
    metal::float4 inner[2];
};
typedef uint type_20[1];
typedef metal::float4 type_21[1];
struct type_22 {
    uint inner[2];
};
struct type_23 {
    metal::uint4 inner[2];
};
struct type_24 {
    float inner[8];
};
typedef float type_25[1];
typedef metal::uint2 type_27[1];
struct type_28 {
    metal::int4 inner[4];
};
struct type_29 {
    float inner[256];
};
constant uint BITS = 2u;
constant uint BITS_UP = 2u;
constant uint SLICES = 64u;
constant uint COLUMNS = 1u;
constant uint LOADS = 2u;
constant uint EARLY = 1u;
constant uint INPUTS = 1536u;
constant uint HIDDEN = 1536u;
constant uint EARLY_ENTRY = 1u;
constant uint ENTERED = 196608u;
constant bool NATIVE_HALF = true;
constant bool REASSOCIATES = true;
constant type_8 EXP_COEFFICIENTS = type_8 {{984945178u, 1007230193u, 1026206841u, 1042983497u, 1056964606u, 1065353216u, 1065353216u}};
constant uint THREADS = 256u;
constant uint ONES = 16843009u;
constant uint MATRICES = 2u;
constant uint JOIN = 1u;
constant uint NORM = 2u;
constant uint VECTORS = 384u;
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
    bool local_2 = {};
    bool local_3 = {};
    bool local_4 = {};
    bool local_5 = {};
    bool local_6 = {};
    uint q = {};
    int r = {};
    int i_1 = 0;
    bool local_7 = {};
    int i_2 = 0;
    bool local_8 = {};
    uint x_10 = as_type<uint>(a_2);
    uint y_2 = as_type<uint>(b_2);
    uint ex = (x_10 >> 23u) & 255u;
    uint ey = (y_2 >> 23u) & 255u;
    uint mx = (x_10 & 8388607u) | 8388608u;
    uint my = (y_2 & 8388607u) | 8388608u;
    bool big = mx >= my;
    uint shift_1 = big ? 23u : 24u;
    int e_1 = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(static_cast<int>(ex)) - as_type<uint>(static_cast<int>(ey)))) + as_type<uint>(127))) - as_type<uint>(big ? 0 : 1));
    if (!((ex == 0u))) {
        local_2 = ey == 0u;
    } else {
        local_2 = true;
    }
    bool _e41 = local_2;
    if (!(_e41)) {
        local_3 = ex == 255u;
    } else {
        local_3 = true;
    }
    bool _e48 = local_3;
    if (!(_e48)) {
        local_4 = ey == 255u;
    } else {
        local_4 = true;
    }
    bool _e55 = local_4;
    if (!(_e55)) {
        local_5 = e_1 <= 0;
    } else {
        local_5 = true;
    }
    bool _e62 = local_5;
    if (!(_e62)) {
        local_6 = e_1 >= 255;
    } else {
        local_6 = true;
    }
    bool _e69 = local_6;
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
            int _e113 = i_1;
            i_1 = as_type<int>(as_type<uint>(_e113) + as_type<uint>(1));
        }
        loop_init = false;
        int _e96 = i_1;
        if (_e96 < 64) {
            int _e101 = r;
            int _e102 = r;
            local_7 = as_type<int>(as_type<uint>(_e101) + as_type<uint>(_e102)) > divisor;
        } else {
            local_7 = false;
        }
        bool _e106 = local_7;
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
            int _e135 = i_2;
            i_2 = as_type<int>(as_type<uint>(_e135) + as_type<uint>(1));
        }
        loop_init_1 = false;
        int _e117 = i_2;
        if (_e117 < 64) {
            int _e122 = r;
            int _e123 = r;
            local_8 = as_type<int>(as_type<uint>(_e122) + as_type<uint>(_e123)) < naga_neg(divisor);
        } else {
            local_8 = false;
        }
        bool _e128 = local_8;
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
    return as_type<float>(((x_10 ^ y_2) & 2147483648u) | ((static_cast<uint>(e_1) << 23u) + (_e143 - 8388608u)));
}

int naga_div(int lhs, int rhs) {
    return lhs / metal::select(rhs, 1, (lhs == (-2147483647 - 1) & rhs == -1) | (rhs == 0));
}

float square_root(
    float x_4
) {
    uint s = {};
    int r_1 = {};
    int i_3 = 0;
    bool local_9 = {};
    int i_4 = 0;
    bool local_10 = {};
    uint bits_8 = as_type<uint>(x_4);
    int e_2 = as_type<int>(as_type<uint>(static_cast<int>(bits_8 >> 23u)) - as_type<uint>(127));
    int odd = e_2 & 1;
    uint m_7 = (bits_8 & 8388607u) | 8388608u;
    float seed_1 = metal::sqrt(as_type<float>((m_7 & 8388607u) | 1065353216u) * static_cast<float>(as_type<int>(as_type<uint>(1) + as_type<uint>(odd))));
    s = naga_f2u32(seed_1 * 8388608.0);
    uint _e31 = s;
    uint _e32 = s;
    r_1 = static_cast<int>((m_7 << static_cast<uint>(as_type<int>(as_type<uint>(23) + as_type<uint>(odd)))) - (_e31 * _e32));
    uint2 loop_bound_2 = uint2(4294967295u);
    bool loop_init_2 = true;
    while(true) {
        if (metal::all(loop_bound_2 == uint2(0u))) { break; }
        loop_bound_2 -= uint2(loop_bound_2.y == 0u, 1u);
        if (!loop_init_2) {
            int _e62 = i_3;
            i_3 = as_type<int>(as_type<uint>(_e62) + as_type<uint>(1));
        }
        loop_init_2 = false;
        int _e39 = i_3;
        if (_e39 < 64) {
            int _e44 = r_1;
            uint _e45 = s;
            local_9 = _e44 > static_cast<int>(_e45);
        } else {
            local_9 = false;
        }
        bool _e49 = local_9;
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
            int _e90 = i_4;
            i_4 = as_type<int>(as_type<uint>(_e90) + as_type<uint>(1));
        }
        loop_init_3 = false;
        int _e66 = i_4;
        if (_e66 < 64) {
            int _e71 = r_1;
            uint _e72 = s;
            local_10 = _e71 <= naga_neg(static_cast<int>(_e72));
        } else {
            local_10 = false;
        }
        bool _e77 = local_10;
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
    bool local_11 = {};
    bool local_12 = {};
    uint half_ = 1u << (shift - 1u);
    if (!((rest > half_))) {
        if (rest == half_) {
            local_12 = (m & 1u) == 1u;
        } else {
            local_12 = false;
        }
        bool _e19 = local_12;
        local_11 = _e19;
    } else {
        local_11 = true;
    }
    bool up_1 = local_11;
    float _e28 = power_of_two(static_cast<int>(shift));
    return static_cast<float>(m + (up_1 ? 1u : 0u)) * _e28;
}

int naga_abs(int val) {
    return metal::select(as_type<int>(-as_type<uint>(val)), val, val >= 0);
}

float int_to_float(
    int i_5
) {
    uint m_8 = static_cast<uint>(naga_abs(i_5));
    if (m_8 < 16777216u) {
        return static_cast<float>(i_5);
    }
    uint shift_2 = 8u - metal::clz(m_8);
    float _e15 = round_bits(m_8 >> shift_2, m_8 & ((1u << shift_2) - 1u), shift_2);
    return (i_5 < 0) ? -(_e15) : _e15;
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
    float n = {};
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
    n = metal::rint(near);
    float _e17 = n;
    if (metal::abs(metal::abs(near - _e17) - 0.5) < 0.001) {
        float _e25 = divide(x_5, scale);
        n = metal::rint(_e25);
    }
    float _e27 = n;
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
    int i_6 = 0;
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            int _e15 = i_6;
            i_6 = as_type<int>(as_type<uint>(_e15) + as_type<uint>(1));
        }
        loop_init_4 = false;
        int _e6 = i_6;
        if (_e6 < 4) {
        } else {
            break;
        }
        {
            int _e9 = i_6;
            int _e11 = i_6;
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
    int i_7 = 0;
    uint2 loop_bound_5 = uint2(4294967295u);
    bool loop_init_5 = true;
    while(true) {
        if (metal::all(loop_bound_5 == uint2(0u))) { break; }
        loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
        if (!loop_init_5) {
            int _e15 = i_7;
            i_7 = as_type<int>(as_type<uint>(_e15) + as_type<uint>(1));
        }
        loop_init_5 = false;
        int _e6 = i_7;
        if (_e6 < 4) {
        } else {
            break;
        }
        {
            int _e9 = i_7;
            int _e11 = i_7;
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
    int w_3 = as_type<int>(word);
    return metal::int4(w_3 << 24u, w_3 << 16u, w_3 << 8u, w_3) >> metal::uint4(24u);
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
    int i_8 = 1;
    if (!((x_7 >= -87.0))) {
        return 0.0;
    }
    float _e8 = keep(x_7 * as_type<float>(1069066811u), params);
    float n_7 = metal::rint(_e8);
    float _e16 = fused(n_7, -(as_type<float>(1060205056u)), x_7);
    float _e17 = fused(n_7, -(as_type<float>(901758606u)), _e16);
    p = as_type<float>(984945178u);
    uint2 loop_bound_6 = uint2(4294967295u);
    bool loop_init_6 = true;
    while(true) {
        if (metal::all(loop_bound_6 == uint2(0u))) { break; }
        loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
        if (!loop_init_6) {
            int _e33 = i_8;
            i_8 = as_type<int>(as_type<uint>(_e33) + as_type<uint>(1));
        }
        loop_init_6 = false;
        int _e23 = i_8;
        if (_e23 < 7) {
        } else {
            break;
        }
        {
            float _e26 = p;
            int _e28 = i_8;
            float _e31 = fused(_e26, _e17, as_type<float>(EXP_COEFFICIENTS.inner[_e28]));
            p = _e31;
        }
    }
    float _e35 = p;
    float _e37 = power_of_two(naga_f2i32(n_7));
    float _e39 = keep(_e35 * _e37, params);
    return _e39;
}

uint to_half(
    float x_8
) {
    bool local_13 = {};
    bool local_14 = {};
    uint bits_9 = as_type<uint>(x_8);
    uint sign = (bits_9 >> 16u) & 32768u;
    uint magnitude = bits_9 & 2147483647u;
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
        uint m_9 = (magnitude & 8388607u) | 8388608u;
        uint rest_1 = m_9 & ((1u << shift_4) - 1u);
        uint half_1 = 1u << (shift_4 - 1u);
        uint units = m_9 >> shift_4;
        if (!((rest_1 > half_1))) {
            if (rest_1 == half_1) {
                local_14 = (units & 1u) == 1u;
            } else {
                local_14 = false;
            }
            bool _e50 = local_14;
            local_13 = _e50;
        } else {
            local_13 = true;
        }
        bool _e52 = local_13;
        return sign | (units + (_e52 ? 1u : 0u));
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

metal::uint4 plane(
    metal::uint4 w,
    uint bits,
    uint index
) {
    if (bits == 8u) {
        return w ^ metal::uint4(2155905152u);
    }
    if (bits == 4u) {
        return (w >> metal::uint4(4u * index)) & metal::uint4(252645135u);
    }
    return (w >> metal::uint4(2u * index)) & metal::uint4(50529027u);
}

metal::int4 dots(
    metal::uint4 w_1,
    uint x_9
) {
    uint _e2 = w_1.x;
    packed_char4 reinterpreted_packed_char4_e2 = as_type<packed_char4>(_e2);
    packed_char4 reinterpreted_packed_char4_e1 = as_type<packed_char4>(x_9);
    uint _e4 = w_1.y;
    packed_char4 reinterpreted_packed_char4_e4 = as_type<packed_char4>(_e4);
    packed_char4 reinterpreted_packed_char4_e1 = as_type<packed_char4>(x_9);
    uint _e6 = w_1.z;
    packed_char4 reinterpreted_packed_char4_e6 = as_type<packed_char4>(_e6);
    packed_char4 reinterpreted_packed_char4_e1 = as_type<packed_char4>(x_9);
    uint _e8 = w_1.w;
    packed_char4 reinterpreted_packed_char4_e8 = as_type<packed_char4>(_e8);
    packed_char4 reinterpreted_packed_char4_e1 = as_type<packed_char4>(x_9);
    return metal::int4(( + reinterpreted_packed_char4_e2[0] * reinterpreted_packed_char4_e1[0] + reinterpreted_packed_char4_e2[1] * reinterpreted_packed_char4_e1[1] + reinterpreted_packed_char4_e2[2] * reinterpreted_packed_char4_e1[2] + reinterpreted_packed_char4_e2[3] * reinterpreted_packed_char4_e1[3]), ( + reinterpreted_packed_char4_e4[0] * reinterpreted_packed_char4_e1[0] + reinterpreted_packed_char4_e4[1] * reinterpreted_packed_char4_e1[1] + reinterpreted_packed_char4_e4[2] * reinterpreted_packed_char4_e1[2] + reinterpreted_packed_char4_e4[3] * reinterpreted_packed_char4_e1[3]), ( + reinterpreted_packed_char4_e6[0] * reinterpreted_packed_char4_e1[0] + reinterpreted_packed_char4_e6[1] * reinterpreted_packed_char4_e1[1] + reinterpreted_packed_char4_e6[2] * reinterpreted_packed_char4_e1[2] + reinterpreted_packed_char4_e6[3] * reinterpreted_packed_char4_e1[3]), ( + reinterpreted_packed_char4_e8[0] * reinterpreted_packed_char4_e1[0] + reinterpreted_packed_char4_e8[1] * reinterpreted_packed_char4_e1[1] + reinterpreted_packed_char4_e8[2] * reinterpreted_packed_char4_e1[2] + reinterpreted_packed_char4_e8[3] * reinterpreted_packed_char4_e1[3]));
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

uint groups_of(
    uint bits_1,
    constant Params& params
) {
    uint _e4 = params.inputs;
    return naga_div((false ? _e4 : INPUTS) * bits_1, 32u);
}

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint start_of(
    uint bits_2,
    uint block,
    uint local_15,
    constant Params& params
) {
    uint vectors = naga_div(8u, bits_2);
    uint _e6 = groups_of(bits_2, params);
    return ((((naga_div(block, vectors) * _e6) * vectors) * 4u) + (naga_mod(block, vectors) * 4u)) + naga_mod(local_15, 4u);
}

metal::uint4 weight(
    uint matrix_1,
    uint index_1,
    device type_14 const& gate,
    device type_14 const& up,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (matrix_1 == 0u) {
        metal::uint4 _e6 = gate[index_1];
        return _e6;
    }
    metal::uint4 _e9 = up[index_1];
    return _e9;
}

void hold(
    uint matrix_2,
    uint place,
    uint bits_3,
    uint start,
    uint g_1,
    constant Params& params,
    thread type_11& held,
    device type_14 const& gate,
    device type_14 const& up,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint step = naga_div(32u, bits_3);
    uint _e7 = groups_of(bits_3, params);
    uint end = _e7 - 1u;
    uint at_2 = place * LOADS;
    metal::uint4 _e17 = weight(matrix_2, start + (metal::min(g_1, end) * step), gate, up, _buffer_sizes);
    held.inner[at_2] = _e17;
    if (true) {
        metal::uint4 _e28 = weight(matrix_2, start + (metal::min(g_1 + SLICES, end) * step), gate, up, _buffer_sizes);
        held.inner[at_2 + 1u] = _e28;
    }
    if (false) {
        metal::uint4 _e39 = weight(matrix_2, start + (metal::min(g_1 + 128u, end) * step), gate, up, _buffer_sizes);
        held.inner[at_2 + 2u] = _e39;
    }
    if (false) {
        metal::uint4 _e50 = weight(matrix_2, start + (metal::min(g_1 + 192u, end) * step), gate, up, _buffer_sizes);
        held.inner[at_2 + 3u] = _e50;
    }
    if (false) {
        metal::uint4 _e61 = weight(matrix_2, start + (metal::min(g_1 + 256u, end) * step), gate, up, _buffer_sizes);
        held.inner[at_2 + 4u] = _e61;
    }
    if (false) {
        metal::uint4 _e72 = weight(matrix_2, start + (metal::min(g_1 + 320u, end) * step), gate, up, _buffer_sizes);
        held.inner[at_2 + 5u] = _e72;
    }
    if (false) {
        metal::uint4 _e83 = weight(matrix_2, start + (metal::min(g_1 + 384u, end) * step), gate, up, _buffer_sizes);
        held.inner[at_2 + 6u] = _e83;
    }
    if (false) {
        metal::uint4 _e94 = weight(matrix_2, start + (metal::min(g_1 + 448u, end) * step), gate, up, _buffer_sizes);
        held.inner[at_2 + 7u] = _e94;
        return;
    } else {
        return;
    }
}

void hold_first(
    uint matrix_3,
    uint place_1,
    uint bits_4,
    uint block_1,
    uint local_16,
    constant Params& params,
    thread type_11& held,
    device type_14 const& gate,
    device type_14 const& up,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (true) {
        uint _e6 = start_of(bits_4, block_1, local_16, params);
        hold(matrix_3, place_1, bits_4, _e6, naga_div(local_16, 4u), params, held, gate, up, _buffer_sizes);
        return;
    } else {
        return;
    }
}

uint input_at(
    uint column,
    uint index_2,
    threadgroup type_15& entered
) {
    uint _e4 = entered.inner[index_2];
    return _e4;
}

void add_products(
    metal::uint4 w_2,
    uint bits_5,
    uint g_2,
    uint first,
    constant Params& params,
    thread type_12& sums,
    thread type_13& ones,
    threadgroup type_15& entered
) {
    uint p_1 = 0u;
    uint m_1 = {};
    uint _e4 = groups_of(bits_5, params);
    if (g_2 >= _e4) {
        return;
    }
    uint planes = naga_div(8u, bits_5);
    uint2 loop_bound_7 = uint2(4294967295u);
    bool loop_init_7 = true;
    while(true) {
        if (metal::all(loop_bound_7 == uint2(0u))) { break; }
        loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
        if (!loop_init_7) {
            uint _e44 = p_1;
            p_1 = _e44 + 1u;
        }
        loop_init_7 = false;
        uint _e10 = p_1;
        if (_e10 < planes) {
        } else {
            break;
        }
        {
            uint _e12 = p_1;
            metal::uint4 _e13 = plane(w_2, bits_5, _e12);
            m_1 = 0u;
            uint2 loop_bound_8 = uint2(4294967295u);
            bool loop_init_8 = true;
            while(true) {
                if (metal::all(loop_bound_8 == uint2(0u))) { break; }
                loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
                if (!loop_init_8) {
                    uint _e41 = m_1;
                    m_1 = _e41 + 1u;
                }
                loop_init_8 = false;
                uint _e16 = m_1;
                if (_e16 < COLUMNS) {
                } else {
                    break;
                }
                {
                    uint _e19 = m_1;
                    uint _e22 = p_1;
                    uint _e24 = input_at(first + _e19, (g_2 * planes) + _e22, entered);
                    uint _e26 = m_1;
                    metal::int4 _e28 = sums.inner[_e26];
                    metal::int4 _e29 = dots(_e13, _e24);
                    sums.inner[_e26] = as_type<metal::int4>(as_type<metal::uint4>(_e28) + as_type<metal::uint4>(_e29));
                    if (bits_5 != 8u) {
                        uint _e34 = m_1;
                        int _e36 = ones.inner[_e34];
                        packed_char4 reinterpreted_packed_char4_e37 = as_type<packed_char4>(ONES);
                        packed_char4 reinterpreted_packed_char4_e24 = as_type<packed_char4>(_e24);
                        ones.inner[_e34] = as_type<int>(as_type<uint>(_e36) + as_type<uint>(( + reinterpreted_packed_char4_e37[0] * reinterpreted_packed_char4_e24[0] + reinterpreted_packed_char4_e37[1] * reinterpreted_packed_char4_e24[1] + reinterpreted_packed_char4_e37[2] * reinterpreted_packed_char4_e24[2] + reinterpreted_packed_char4_e37[3] * reinterpreted_packed_char4_e24[3])));
                    }
                }
            }
        }
    }
    return;
}

void sum_in_turn(
    uint matrix_4,
    uint bits_6,
    uint start_1,
    uint slice,
    uint first_1,
    uint local_17,
    constant Params& params,
    threadgroup type_10& parts,
    device type_14 const& gate,
    device type_14 const& up,
    threadgroup type_15& entered,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_12 of_columns = {};
    type_13 of_ones = {};
    uint m_2 = 0u;
    uint g_3 = {};
    uint p_2 = {};
    uint m_3 = {};
    uint m_4 = 0u;
    metal::int4 sum = {};
    uint planes_1 = naga_div(8u, bits_6);
    uint step_1 = naga_div(32u, bits_6);
    uint _e10 = groups_of(bits_6, params);
    uint2 loop_bound_9 = uint2(4294967295u);
    bool loop_init_9 = true;
    while(true) {
        if (metal::all(loop_bound_9 == uint2(0u))) { break; }
        loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
        if (!loop_init_9) {
            uint _e25 = m_2;
            m_2 = _e25 + 1u;
        }
        loop_init_9 = false;
        uint _e15 = m_2;
        if (_e15 < COLUMNS) {
        } else {
            break;
        }
        {
            uint _e18 = m_2;
            of_columns.inner[_e18] = metal::int4 {};
            uint _e21 = m_2;
            of_ones.inner[_e21] = 0;
        }
    }
    g_3 = slice;
    uint2 loop_bound_10 = uint2(4294967295u);
    bool loop_init_10 = true;
    while(true) {
        if (metal::all(loop_bound_10 == uint2(0u))) { break; }
        loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
        if (!loop_init_10) {
            uint _e71 = g_3;
            g_3 = _e71 + SLICES;
        }
        loop_init_10 = false;
        uint _e28 = g_3;
        if (_e28 < _e10) {
        } else {
            break;
        }
        {
            uint _e30 = g_3;
            metal::uint4 _e33 = weight(matrix_4, start_1 + (_e30 * step_1), gate, up, _buffer_sizes);
            p_2 = 0u;
            uint2 loop_bound_11 = uint2(4294967295u);
            bool loop_init_11 = true;
            while(true) {
                if (metal::all(loop_bound_11 == uint2(0u))) { break; }
                loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
                if (!loop_init_11) {
                    uint _e69 = p_2;
                    p_2 = _e69 + 1u;
                }
                loop_init_11 = false;
                uint _e36 = p_2;
                if (_e36 < planes_1) {
                } else {
                    break;
                }
                {
                    uint _e38 = p_2;
                    metal::uint4 _e39 = plane(_e33, bits_6, _e38);
                    m_3 = 0u;
                    uint2 loop_bound_12 = uint2(4294967295u);
                    bool loop_init_12 = true;
                    while(true) {
                        if (metal::all(loop_bound_12 == uint2(0u))) { break; }
                        loop_bound_12 -= uint2(loop_bound_12.y == 0u, 1u);
                        if (!loop_init_12) {
                            uint _e66 = m_3;
                            m_3 = _e66 + 1u;
                        }
                        loop_init_12 = false;
                        uint _e42 = m_3;
                        if (_e42 < COLUMNS) {
                        } else {
                            break;
                        }
                        {
                            uint _e45 = m_3;
                            uint _e47 = g_3;
                            uint _e49 = p_2;
                            uint _e51 = input_at(first_1 + _e45, (_e47 * planes_1) + _e49, entered);
                            uint _e52 = m_3;
                            metal::int4 _e54 = of_columns.inner[_e52];
                            metal::int4 _e55 = dots(_e39, _e51);
                            of_columns.inner[_e52] = as_type<metal::int4>(as_type<metal::uint4>(_e54) + as_type<metal::uint4>(_e55));
                            if (bits_6 != 8u) {
                                uint _e59 = m_3;
                                int _e61 = of_ones.inner[_e59];
                                packed_char4 reinterpreted_packed_char4_e62 = as_type<packed_char4>(ONES);
                                packed_char4 reinterpreted_packed_char4_e51 = as_type<packed_char4>(_e51);
                                of_ones.inner[_e59] = as_type<int>(as_type<uint>(_e61) + as_type<uint>(( + reinterpreted_packed_char4_e62[0] * reinterpreted_packed_char4_e51[0] + reinterpreted_packed_char4_e62[1] * reinterpreted_packed_char4_e51[1] + reinterpreted_packed_char4_e62[2] * reinterpreted_packed_char4_e51[2] + reinterpreted_packed_char4_e62[3] * reinterpreted_packed_char4_e51[3])));
                            }
                        }
                    }
                }
            }
        }
    }
    uint2 loop_bound_13 = uint2(4294967295u);
    bool loop_init_13 = true;
    while(true) {
        if (metal::all(loop_bound_13 == uint2(0u))) { break; }
        loop_bound_13 -= uint2(loop_bound_13.y == 0u, 1u);
        if (!loop_init_13) {
            uint _e102 = m_4;
            m_4 = _e102 + 1u;
        }
        loop_init_13 = false;
        uint _e76 = m_4;
        if (_e76 < COLUMNS) {
        } else {
            break;
        }
        {
            uint _e79 = m_4;
            metal::int4 _e81 = of_columns.inner[_e79];
            sum = _e81;
            if (bits_6 != 8u) {
                metal::int4 _e85 = sum;
                uint _e86 = m_4;
                int _e88 = of_ones.inner[_e86];
                sum = as_type<metal::int4>(as_type<metal::uint4>(_e85) - as_type<metal::uint4>(metal::int4(_e88 << (bits_6 - 1u))));
            }
            uint _e95 = m_4;
            metal::int4 _e100 = sum;
            parts.inner[(_e95 * THREADS) + local_17] = _e100;
        }
    }
    return;
}

void reduce(
    uint local_18,
    threadgroup type_10& parts
) {
    uint width = 16u;
    uint i_9 = {};
    uint2 loop_bound_14 = uint2(4294967295u);
    bool loop_init_14 = true;
    while(true) {
        if (metal::all(loop_bound_14 == uint2(0u))) { break; }
        loop_bound_14 -= uint2(loop_bound_14.y == 0u, 1u);
        if (!loop_init_14) {
            uint _e57 = width;
            width = naga_div(_e57, 4u);
        }
        loop_init_14 = false;
        uint _e3 = width;
        if (_e3 >= 1u) {
        } else {
            break;
        }
        {
            metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
            i_9 = local_18;
            uint2 loop_bound_15 = uint2(4294967295u);
            bool loop_init_15 = true;
            while(true) {
                if (metal::all(loop_bound_15 == uint2(0u))) { break; }
                loop_bound_15 -= uint2(loop_bound_15.y == 0u, 1u);
                if (!loop_init_15) {
                    uint _e54 = i_9;
                    i_9 = _e54 + THREADS;
                }
                loop_init_15 = false;
                uint _e7 = i_9;
                uint _e9 = width;
                if (_e7 < ((4u * _e9) * COLUMNS)) {
                } else {
                    break;
                }
                {
                    uint _e14 = i_9;
                    uint _e16 = width;
                    uint _e21 = i_9;
                    uint _e23 = width;
                    uint at_3 = (naga_div(_e14, 4u * _e16) * THREADS) + naga_mod(_e21, 4u * _e23);
                    metal::int4 _e29 = parts.inner[at_3];
                    uint _e32 = width;
                    metal::int4 _e36 = parts.inner[at_3 + (4u * _e32)];
                    uint _e39 = width;
                    metal::int4 _e43 = parts.inner[at_3 + (8u * _e39)];
                    uint _e47 = width;
                    metal::int4 _e51 = parts.inner[at_3 + (12u * _e47)];
                    parts.inner[at_3] = as_type<metal::int4>(as_type<metal::uint4>(_e29) + as_type<metal::uint4>(as_type<metal::int4>(as_type<metal::uint4>(as_type<metal::int4>(as_type<metal::uint4>(_e36) + as_type<metal::uint4>(_e43))) + as_type<metal::uint4>(_e51))));
                }
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

void sum_rows(
    uint matrix_5,
    uint place_2,
    uint bits_7,
    uint block_2,
    uint first_2,
    uint local_19,
    constant Params& params,
    threadgroup type_10& parts,
    thread type_11& held,
    thread type_12& sums,
    thread type_13& ones,
    device type_14 const& gate,
    device type_14 const& up,
    threadgroup type_15& entered,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint m_5 = 0u;
    uint g_4 = {};
    uint m_6 = 0u;
    metal::int4 sum_1 = {};
    uint slice_1 = naga_div(local_19, 4u);
    uint _e8 = groups_of(bits_7, params);
    uint _e9 = start_of(bits_7, block_2, local_19, params);
    if (false) {
        sum_in_turn(matrix_5, bits_7, _e9, slice_1, first_2, local_19, params, parts, gate, up, entered, _buffer_sizes);
        reduce(local_19, parts);
        return;
    }
    uint2 loop_bound_16 = uint2(4294967295u);
    bool loop_init_16 = true;
    while(true) {
        if (metal::all(loop_bound_16 == uint2(0u))) { break; }
        loop_bound_16 -= uint2(loop_bound_16.y == 0u, 1u);
        if (!loop_init_16) {
            uint _e25 = m_5;
            m_5 = _e25 + 1u;
        }
        loop_init_16 = false;
        uint _e13 = m_5;
        if (_e13 < COLUMNS) {
        } else {
            break;
        }
        {
            uint _e17 = m_5;
            sums.inner[_e17] = metal::int4 {};
            uint _e21 = m_5;
            ones.inner[_e21] = 0;
        }
    }
    uint at_4 = place_2 * LOADS;
    g_4 = slice_1;
    uint2 loop_bound_17 = uint2(4294967295u);
    bool loop_init_17 = true;
    while(true) {
        if (metal::all(loop_bound_17 == uint2(0u))) { break; }
        loop_bound_17 -= uint2(loop_bound_17.y == 0u, 1u);
        if (!loop_init_17) {
            uint _e102 = g_4;
            g_4 = _e102 + 128u;
        }
        loop_init_17 = false;
        uint _e30 = g_4;
        if (_e30 < _e8) {
        } else {
            break;
        }
        {
            uint _e32 = g_4;
            if (_e32 != slice_1) {
                uint _e34 = g_4;
                hold(matrix_5, place_2, bits_7, _e9, _e34, params, held, gate, up, _buffer_sizes);
            }
            metal::uint4 _e37 = held.inner[at_4];
            uint _e38 = g_4;
            add_products(_e37, bits_7, _e38, first_2, params, sums, ones, entered);
            if (true) {
                metal::uint4 _e44 = held.inner[at_4 + 1u];
                uint _e45 = g_4;
                add_products(_e44, bits_7, _e45 + SLICES, first_2, params, sums, ones, entered);
            }
            if (false) {
                metal::uint4 _e53 = held.inner[at_4 + 2u];
                uint _e54 = g_4;
                add_products(_e53, bits_7, _e54 + 128u, first_2, params, sums, ones, entered);
            }
            if (false) {
                metal::uint4 _e62 = held.inner[at_4 + 3u];
                uint _e63 = g_4;
                add_products(_e62, bits_7, _e63 + 192u, first_2, params, sums, ones, entered);
            }
            if (false) {
                metal::uint4 _e71 = held.inner[at_4 + 4u];
                uint _e72 = g_4;
                add_products(_e71, bits_7, _e72 + 256u, first_2, params, sums, ones, entered);
            }
            if (false) {
                metal::uint4 _e80 = held.inner[at_4 + 5u];
                uint _e81 = g_4;
                add_products(_e80, bits_7, _e81 + 320u, first_2, params, sums, ones, entered);
            }
            if (false) {
                metal::uint4 _e89 = held.inner[at_4 + 6u];
                uint _e90 = g_4;
                add_products(_e89, bits_7, _e90 + 384u, first_2, params, sums, ones, entered);
            }
            if (false) {
                metal::uint4 _e98 = held.inner[at_4 + 7u];
                uint _e99 = g_4;
                add_products(_e98, bits_7, _e99 + 448u, first_2, params, sums, ones, entered);
            }
        }
    }
    uint2 loop_bound_18 = uint2(4294967295u);
    bool loop_init_18 = true;
    while(true) {
        if (metal::all(loop_bound_18 == uint2(0u))) { break; }
        loop_bound_18 -= uint2(loop_bound_18.y == 0u, 1u);
        if (!loop_init_18) {
            uint _e135 = m_6;
            m_6 = _e135 + 1u;
        }
        loop_init_18 = false;
        uint _e107 = m_6;
        if (_e107 < COLUMNS) {
        } else {
            break;
        }
        {
            uint _e111 = m_6;
            metal::int4 _e113 = sums.inner[_e111];
            sum_1 = _e113;
            if (bits_7 != 8u) {
                metal::int4 _e117 = sum_1;
                uint _e119 = m_6;
                int _e121 = ones.inner[_e119];
                sum_1 = as_type<metal::int4>(as_type<metal::uint4>(_e117) - as_type<metal::uint4>(metal::int4(_e121 << (bits_7 - 1u))));
            }
            uint _e128 = m_6;
            metal::int4 _e133 = sum_1;
            parts.inner[(_e128 * THREADS) + local_19] = _e133;
        }
    }
    reduce(local_19, parts);
    return;
}

float stream_at(
    uint i_10,
    threadgroup type_16& stream
) {
    float _e8 = stream.inner[naga_div(i_10, 4u)][naga_mod(i_10, 4u)];
    return _e8;
}

float enter(
    uint column_1,
    bool writes,
    uint local_20,
    constant Params& params,
    threadgroup type_16& stream,
    threadgroup type_17& lanes,
    threadgroup type_18& squares,
    thread type_19& own_norms,
    device type_20 const& joining,
    device type_14& hidden,
    device type_21 const& norms,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_22 codes_in = {};
    type_23 before = {};
    type_19 joining_norms = {};
    uint n_1 = 0u;
    int sum_2 = 0;
    uint n_2 = 0u;
    uint i_11 = 16u;
    uint i_12 = 0u;
    uint n_3 = 0u;
    uint n_4 = 0u;
    float lane = 0.0;
    bool local_21 = {};
    uint i_13 = {};
    type_24 eight = {};
    uint j_1 = {};
    uint i_14 = {};
    type_7 all = {};
    uint i_15 = 0u;
    uint _e5 = params.stream_in;
    uint source = naga_div(_e5, 4u) + (column_1 * VECTORS);
    uint _e13 = params.stream_out;
    uint target_at = naga_div(_e13, 4u) + (column_1 * VECTORS);
    uint _e21 = params.flags;
    bool joins = (_e21 & JOIN) != 0u;
    uint _e28 = params.flags;
    bool norm = (_e28 & NORM) != 0u;
    uint2 loop_bound_19 = uint2(4294967295u);
    bool loop_init_19 = true;
    while(true) {
        if (metal::all(loop_bound_19 == uint2(0u))) { break; }
        loop_bound_19 -= uint2(loop_bound_19.y == 0u, 1u);
        if (!loop_init_19) {
            uint _e76 = n_1;
            n_1 = _e76 + 1u;
        }
        loop_init_19 = false;
        uint _e38 = n_1;
        if (_e38 < COUNT) {
        } else {
            break;
        }
        {
            uint _e41 = n_1;
            uint i_17 = metal::min(local_20 + (_e41 * THREADS), 383u);
            if (joins) {
                uint _e47 = n_1;
                uint _e54 = joining[(column_1 * VECTORS) + i_17];
                codes_in.inner[_e47] = _e54;
            }
            if (true) {
                uint _e56 = n_1;
                metal::uint4 _e61 = hidden[source + i_17];
                before.inner[_e56] = _e61;
                if (joins) {
                    uint _e62 = n_1;
                    metal::float4 _e66 = norms[i_17];
                    joining_norms.inner[_e62] = _e66;
                }
                if (norm) {
                    uint _e68 = n_1;
                    metal::float4 _e74 = norms[VECTORS + i_17];
                    own_norms.inner[_e68] = _e74;
                }
            }
        }
    }
    if (joins) {
        uint2 loop_bound_20 = uint2(4294967295u);
        bool loop_init_20 = true;
        while(true) {
            if (metal::all(loop_bound_20 == uint2(0u))) { break; }
            loop_bound_20 -= uint2(loop_bound_20.y == 0u, 1u);
            if (!loop_init_20) {
                uint _e101 = n_2;
                n_2 = _e101 + 1u;
            }
            loop_init_20 = false;
            uint _e82 = n_2;
            if (_e82 < COUNT) {
            } else {
                break;
            }
            {
                uint _e85 = n_2;
                if ((local_20 + (_e85 * THREADS)) < VECTORS) {
                    int _e91 = sum_2;
                    uint _e92 = n_2;
                    uint _e94 = codes_in.inner[_e92];
                    uint _e95 = n_2;
                    uint _e97 = codes_in.inner[_e95];
                    packed_char4 reinterpreted_packed_char4_e94 = as_type<packed_char4>(_e94);
                    packed_char4 reinterpreted_packed_char4_e97 = as_type<packed_char4>(_e97);
                    sum_2 = as_type<int>(as_type<uint>(_e91) + as_type<uint>(( + reinterpreted_packed_char4_e94[0] * reinterpreted_packed_char4_e97[0] + reinterpreted_packed_char4_e94[1] * reinterpreted_packed_char4_e97[1] + reinterpreted_packed_char4_e94[2] * reinterpreted_packed_char4_e97[2] + reinterpreted_packed_char4_e94[3] * reinterpreted_packed_char4_e97[3])));
                }
            }
        }
        int _e105 = sum_2;
        squares.inner[local_20] = _e105;
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        if (local_20 < 16u) {
            uint2 loop_bound_21 = uint2(4294967295u);
            bool loop_init_21 = true;
            while(true) {
                if (metal::all(loop_bound_21 == uint2(0u))) { break; }
                loop_bound_21 -= uint2(loop_bound_21.y == 0u, 1u);
                if (!loop_init_21) {
                    uint _e120 = i_11;
                    i_11 = _e120 + 16u;
                }
                loop_init_21 = false;
                uint _e110 = i_11;
                if (_e110 < THREADS) {
                } else {
                    break;
                }
                {
                    int _e113 = sum_2;
                    uint _e115 = i_11;
                    int _e118 = squares.inner[local_20 + _e115];
                    sum_2 = as_type<int>(as_type<uint>(_e113) + as_type<uint>(_e118));
                }
            }
            int _e125 = sum_2;
            squares.inner[local_20] = _e125;
        }
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
        sum_2 = 0;
        uint2 loop_bound_22 = uint2(4294967295u);
        bool loop_init_22 = true;
        while(true) {
            if (metal::all(loop_bound_22 == uint2(0u))) { break; }
            loop_bound_22 -= uint2(loop_bound_22.y == 0u, 1u);
            if (!loop_init_22) {
                uint _e139 = i_12;
                i_12 = _e139 + 1u;
            }
            loop_init_22 = false;
            uint _e129 = i_12;
            if (_e129 < 16u) {
            } else {
                break;
            }
            {
                int _e132 = sum_2;
                uint _e134 = i_12;
                int _e136 = squares.inner[_e134];
                sum_2 = as_type<int>(as_type<uint>(_e132) + as_type<uint>(_e136));
            }
        }
        int _e141 = sum_2;
        float _e142 = int_to_float(_e141);
        float scale_2 = params.join_scale;
        float _e147 = keep(scale_2 * scale_2, params);
        float _e149 = keep(_e142 * _e147, params);
        float _e151 = divide(_e149, 1536.0);
        float _e152 = reciprocal_root(_e151, params);
        uint2 loop_bound_23 = uint2(4294967295u);
        bool loop_init_23 = true;
        while(true) {
            if (metal::all(loop_bound_23 == uint2(0u))) { break; }
            loop_bound_23 -= uint2(loop_bound_23.y == 0u, 1u);
            if (!loop_init_23) {
                uint _e208 = n_3;
                n_3 = _e208 + 1u;
            }
            loop_init_23 = false;
            uint _e155 = n_3;
            if (_e155 < COUNT) {
            } else {
                break;
            }
            {
                uint _e158 = n_3;
                uint i_18 = local_20 + (_e158 * THREADS);
                if (i_18 < VECTORS) {
                    if (false) {
                        uint _e165 = n_3;
                        metal::uint4 _e170 = hidden[source + i_18];
                        before.inner[_e165] = _e170;
                        uint _e171 = n_3;
                        metal::float4 _e175 = norms[i_18];
                        joining_norms.inner[_e171] = _e175;
                    }
                    uint _e176 = n_3;
                    uint _e178 = codes_in.inner[_e176];
                    metal::int4 _e179 = codes4_(_e178);
                    metal::float4 _e182 = keep4_(static_cast<metal::float4>(_e179) * scale_2, params);
                    metal::float4 _e184 = keep4_(_e182 * _e152, params);
                    uint _e185 = n_3;
                    metal::float4 _e187 = joining_norms.inner[_e185];
                    metal::float4 _e189 = keep4_(_e184 * _e187, params);
                    uint _e190 = n_3;
                    metal::uint4 _e192 = before.inner[_e190];
                    metal::float4 _e195 = keep4_(as_type<metal::float4>(_e192) + _e189, params);
                    float _e198 = params.scalar;
                    metal::float4 _e200 = keep4_(_e195 * _e198, params);
                    stream.inner[i_18] = _e200;
                    if (writes) {
                        hidden[target_at + i_18] = as_type<metal::uint4>(_e200);
                    }
                }
            }
        }
    } else {
        uint2 loop_bound_24 = uint2(4294967295u);
        bool loop_init_24 = true;
        while(true) {
            if (metal::all(loop_bound_24 == uint2(0u))) { break; }
            loop_bound_24 -= uint2(loop_bound_24.y == 0u, 1u);
            if (!loop_init_24) {
                uint _e235 = n_4;
                n_4 = _e235 + 1u;
            }
            loop_init_24 = false;
            uint _e212 = n_4;
            if (_e212 < COUNT) {
            } else {
                break;
            }
            {
                uint _e215 = n_4;
                uint i_19 = local_20 + (_e215 * THREADS);
                if (i_19 < VECTORS) {
                    if (false) {
                        uint _e222 = n_4;
                        metal::uint4 _e227 = hidden[source + i_19];
                        before.inner[_e222] = _e227;
                    }
                    uint _e230 = n_4;
                    metal::uint4 _e232 = before.inner[_e230];
                    stream.inner[i_19] = as_type<metal::float4>(_e232);
                }
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (!(norm)) {
        return 0.0;
    }
    if (local_20 < 32u) {
        if (true) {
            local_21 = true;
        } else {
            local_21 = false;
        }
        bool _e248 = local_21;
        if (_e248) {
            i_13 = local_20;
            uint2 loop_bound_25 = uint2(4294967295u);
            bool loop_init_25 = true;
            while(true) {
                if (metal::all(loop_bound_25 == uint2(0u))) { break; }
                loop_bound_25 -= uint2(loop_bound_25.y == 0u, 1u);
                if (!loop_init_25) {
                    uint _e301 = i_13;
                    i_13 = _e301 + 256u;
                }
                loop_init_25 = false;
                uint _e250 = i_13;
                if (_e250 < HIDDEN) {
                } else {
                    break;
                }
                {
                    uint _e253 = i_13;
                    float _e254 = stream_at(_e253, stream);
                    uint _e255 = i_13;
                    float _e258 = stream_at(_e255 + 32u, stream);
                    uint _e259 = i_13;
                    float _e262 = stream_at(_e259 + 64u, stream);
                    uint _e263 = i_13;
                    float _e266 = stream_at(_e263 + 96u, stream);
                    uint _e267 = i_13;
                    float _e270 = stream_at(_e267 + 128u, stream);
                    uint _e271 = i_13;
                    float _e274 = stream_at(_e271 + 160u, stream);
                    uint _e275 = i_13;
                    float _e278 = stream_at(_e275 + 192u, stream);
                    uint _e279 = i_13;
                    float _e282 = stream_at(_e279 + 224u, stream);
                    type_24 x_11 = type_24 {{_e254, _e258, _e262, _e266, _e270, _e274, _e278, _e282}};
                    eight = x_11;
                    j_1 = 0u;
                    uint2 loop_bound_26 = uint2(4294967295u);
                    bool loop_init_26 = true;
                    while(true) {
                        if (metal::all(loop_bound_26 == uint2(0u))) { break; }
                        loop_bound_26 -= uint2(loop_bound_26.y == 0u, 1u);
                        if (!loop_init_26) {
                            uint _e299 = j_1;
                            j_1 = _e299 + 1u;
                        }
                        loop_init_26 = false;
                        uint _e287 = j_1;
                        if (_e287 < 8u) {
                        } else {
                            break;
                        }
                        {
                            uint _e290 = j_1;
                            float _e292 = eight.inner[_e290];
                            uint _e293 = j_1;
                            float _e295 = eight.inner[_e293];
                            float _e296 = lane;
                            float _e297 = fused(_e292, _e295, _e296);
                            lane = _e297;
                        }
                    }
                }
            }
        } else {
            i_14 = local_20;
            uint2 loop_bound_27 = uint2(4294967295u);
            bool loop_init_27 = true;
            while(true) {
                if (metal::all(loop_bound_27 == uint2(0u))) { break; }
                loop_bound_27 -= uint2(loop_bound_27.y == 0u, 1u);
                if (!loop_init_27) {
                    uint _e312 = i_14;
                    i_14 = _e312 + 32u;
                }
                loop_init_27 = false;
                uint _e305 = i_14;
                if (_e305 < HIDDEN) {
                } else {
                    break;
                }
                {
                    uint _e308 = i_14;
                    float _e309 = stream_at(_e308, stream);
                    float _e310 = lane;
                    float _e311 = fused(_e309, _e309, _e310);
                    lane = _e311;
                }
            }
        }
        float _e317 = lane;
        lanes.inner[local_20] = _e317;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint2 loop_bound_28 = uint2(4294967295u);
    bool loop_init_28 = true;
    while(true) {
        if (metal::all(loop_bound_28 == uint2(0u))) { break; }
        loop_bound_28 -= uint2(loop_bound_28.y == 0u, 1u);
        if (!loop_init_28) {
            uint _e358 = i_15;
            i_15 = _e358 + 1u;
        }
        loop_init_28 = false;
        uint _e321 = i_15;
        if (_e321 < 8u) {
        } else {
            break;
        }
        {
            uint _e324 = i_15;
            uint _e328 = i_15;
            float _e331 = lanes.inner[4u * _e328];
            uint _e334 = i_15;
            float _e339 = lanes.inner[(4u * _e334) + 1u];
            uint _e342 = i_15;
            float _e347 = lanes.inner[(4u * _e342) + 2u];
            uint _e350 = i_15;
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
    uint local_22,
    uint n_5,
    float r_2,
    constant Params& params,
    threadgroup type_16& stream,
    thread type_19& own_norms,
    device type_21 const& norms,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_20 = local_22 + (n_5 * THREADS);
    metal::float4 x_12 = stream.inner[i_20];
    uint _e11 = params.flags;
    if ((_e11 & NORM) == 0u) {
        return x_12;
    }
    if (false) {
        metal::float4 _e23 = norms[VECTORS + i_20];
        own_norms.inner[n_5] = _e23;
    }
    metal::float4 _e25 = keep4_(x_12 * r_2, params);
    metal::float4 _e28 = own_norms.inner[n_5];
    metal::float4 _e30 = keep4_(_e25 * _e28, params);
    return _e30;
}

void take_input(
    bool writes_1,
    uint local_23,
    constant Params& params,
    threadgroup type_15& entered,
    threadgroup type_16& stream,
    threadgroup type_17& lanes,
    threadgroup type_18& squares,
    thread type_19& own_norms,
    device type_20 const& joining,
    device type_14& hidden,
    device type_21 const& norms,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint n_6 = 0u;
    float _e3 = enter(0u, writes_1, local_23, params, stream, lanes, squares, own_norms, joining, hidden, norms, _buffer_sizes);
    uint2 loop_bound_29 = uint2(4294967295u);
    bool loop_init_29 = true;
    while(true) {
        if (metal::all(loop_bound_29 == uint2(0u))) { break; }
        loop_bound_29 -= uint2(loop_bound_29.y == 0u, 1u);
        if (!loop_init_29) {
            uint _e33 = n_6;
            n_6 = _e33 + 1u;
        }
        loop_init_29 = false;
        uint _e6 = n_6;
        if (_e6 < COUNT) {
        } else {
            break;
        }
        {
            uint _e9 = n_6;
            uint i_21 = local_23 + (_e9 * THREADS);
            if (i_21 < VECTORS) {
                uint _e15 = n_6;
                metal::float4 _e16 = normed4_(local_23, _e15, _e3, params, stream, own_norms, norms, _buffer_sizes);
                float _e19 = params.input_scale;
                uint _e20 = quantise4_(_e16, _e19);
                entered.inner[i_21] = _e20;
                if (writes_1) {
                    hidden[naga_div(ENTERED + i_21, 4u)][naga_mod(i_21, 4u)] = _e20;
                }
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

metal::float4 factors_of(
    uint at,
    device type_25 const& factors,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = factors[at];
    float _e8 = factors[at + 1u];
    float _e13 = factors[at + 2u];
    float _e18 = factors[at + 3u];
    return metal::float4(_e3, _e8, _e13, _e18);
}

float gelu(
    uint at_1,
    int code_1,
    device type_25 const& factors,
    threadgroup type_29& table,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (true) {
        float _e8 = table.inner[static_cast<uint>(as_type<int>(as_type<uint>(code_1) + as_type<uint>(128)))];
        return _e8;
    }
    float _e15 = factors[at_1 + static_cast<uint>(as_type<int>(as_type<uint>(code_1) + as_type<uint>(128)))];
    return _e15;
}

void keep_gates(
    uint local_24,
    threadgroup type_10& parts,
    threadgroup type_28& gates
) {
    uint i_16 = {};
    i_16 = local_24;
    uint2 loop_bound_30 = uint2(4294967295u);
    bool loop_init_30 = true;
    while(true) {
        if (metal::all(loop_bound_30 == uint2(0u))) { break; }
        loop_bound_30 -= uint2(loop_bound_30.y == 0u, 1u);
        if (!loop_init_30) {
            uint _e20 = i_16;
            i_16 = _e20 + THREADS;
        }
        loop_init_30 = false;
        uint _e2 = i_16;
        if (_e2 < 4u) {
        } else {
            break;
        }
        {
            uint _e6 = i_16;
            uint _e9 = i_16;
            uint _e14 = i_16;
            metal::int4 _e19 = parts.inner[(naga_div(_e9, 4u) * THREADS) + naga_mod(_e14, 4u)];
            gates.inner[_e6] = _e19;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint local [[thread_index_in_threadgroup]]
, constant Params& params [[user(fake0)]]
, threadgroup type_10& parts
, device type_14 const& gate [[user(fake0)]]
, device type_14 const& up [[user(fake0)]]
, threadgroup type_15& entered
, threadgroup type_16& stream
, threadgroup type_17& lanes
, threadgroup type_18& squares
, device type_20 const& joining [[user(fake0)]]
, device type_14& hidden [[user(fake0)]]
, device type_21 const& norms [[user(fake0)]]
, device type_25 const& factors [[user(fake0)]]
, device type_20& output [[user(fake0)]]
, device type_27& codes [[user(fake0)]]
, threadgroup type_28& gates
, threadgroup type_29& table
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    type_11 held = {};
    type_12 sums = {};
    type_13 ones = {};
    type_19 own_norms = {};
    if (local == 0u) {
        parts = {};
        entered = {};
        stream = {};
        lanes = {};
        squares = {};
        gates = {};
        table = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    metal::float4 of_gate = {};
    metal::float4 of_up = {};
    float value = 0.0;
    bool local_1 = {};
    uint matrix_ = 0u;
    uint i = {};
    metal::int4 g = {};
    metal::int4 u = {};
    metal::float4 product = {};
    uint j = {};
    uint first_3 = group.y * COLUMNS;
    hold_first(0u, 0u, BITS, group.x, local, params, held, gate, up, _buffer_sizes);
    hold_first(1u, 1u, BITS_UP, group.x, local, params, held, gate, up, _buffer_sizes);
    if (true) {
        if (local < 256u) {
            uint _e24 = params.rows;
            float _e28 = factors[(2u * _e24) + local];
            value = _e28;
        }
        if (local < 4u) {
            metal::float4 _e37 = factors_of((group.x * 16u) + (local * 4u), factors, _buffer_sizes);
            of_gate = _e37;
            uint _e40 = params.rows;
            metal::float4 _e48 = factors_of((_e40 + (group.x * 16u)) + (local * 4u), factors, _buffer_sizes);
            of_up = _e48;
        }
    }
    take_input(group.x == 0u, local, params, entered, stream, lanes, squares, own_norms, joining, hidden, norms, _buffer_sizes);
    if (true) {
        local_1 = local < 256u;
    } else {
        local_1 = false;
    }
    bool _e58 = local_1;
    if (_e58) {
        float _e61 = value;
        table.inner[local] = _e61;
    }
    if (true) {
        sum_rows(0u, 0u, BITS, group.x, first_3, local, params, parts, held, sums, ones, gate, up, entered, _buffer_sizes);
        keep_gates(local, parts, gates);
        sum_rows(1u, 1u, BITS_UP, group.x, first_3, local, params, parts, held, sums, ones, gate, up, entered, _buffer_sizes);
    } else {
        uint2 loop_bound_31 = uint2(4294967295u);
        bool loop_init_31 = true;
        while(true) {
            if (metal::all(loop_bound_31 == uint2(0u))) { break; }
            loop_bound_31 -= uint2(loop_bound_31.y == 0u, 1u);
            if (!loop_init_31) {
                uint _e89 = matrix_;
                matrix_ = _e89 + 1u;
            }
            loop_init_31 = false;
            uint _e73 = matrix_;
            if (_e73 < 2u) {
            } else {
                break;
            }
            {
                uint _e76 = matrix_;
                uint _e80 = matrix_;
                sum_rows(_e76, 0u, (_e80 == 1u) ? BITS_UP : BITS, group.x, first_3, local, params, parts, held, sums, ones, gate, up, entered, _buffer_sizes);
                uint _e85 = matrix_;
                if (_e85 == 0u) {
                    keep_gates(local, parts, gates);
                }
            }
        }
    }
    i = local;
    uint2 loop_bound_32 = uint2(4294967295u);
    bool loop_init_32 = true;
    while(true) {
        if (metal::all(loop_bound_32 == uint2(0u))) { break; }
        loop_bound_32 -= uint2(loop_bound_32.y == 0u, 1u);
        if (!loop_init_32) {
            uint _e227 = i;
            i = _e227 + THREADS;
        }
        loop_init_32 = false;
        uint _e92 = i;
        if (_e92 < 4u) {
        } else {
            break;
        }
        {
            uint _e95 = i;
            uint m_10 = naga_div(_e95, 4u);
            uint _e101 = i;
            uint row = (group.x * 16u) + (naga_mod(_e101, 4u) * 4u);
            uint _e108 = i;
            metal::int4 _e110 = gates.inner[_e108];
            g = _e110;
            uint _e115 = i;
            metal::int4 _e120 = parts.inner[(m_10 * THREADS) + naga_mod(_e115, 4u)];
            u = _e120;
            if (false) {
                metal::float4 _e123 = factors_of(row, factors, _buffer_sizes);
                of_gate = _e123;
                uint _e126 = params.rows;
                metal::float4 _e128 = factors_of(_e126 + row, factors, _buffer_sizes);
                of_up = _e128;
            }
            product = metal::float4 {};
            j = 0u;
            uint2 loop_bound_33 = uint2(4294967295u);
            bool loop_init_33 = true;
            while(true) {
                if (metal::all(loop_bound_33 == uint2(0u))) { break; }
                loop_bound_33 -= uint2(loop_bound_33.y == 0u, 1u);
                if (!loop_init_33) {
                    uint _e189 = j;
                    j = _e189 + 1u;
                }
                loop_init_33 = false;
                uint _e133 = j;
                if (_e133 < 4u) {
                } else {
                    break;
                }
                {
                    uint _e136 = j;
                    uint _e138 = j;
                    int _e140 = g[_e138];
                    float _e141 = int_to_float(_e140);
                    uint _e142 = j;
                    float _e144 = of_gate[_e142];
                    float _e146 = keep(_e141 * _e144, params);
                    float _e149 = params.output_scale;
                    int _e150 = quantise(_e146, _e149);
                    g[_e136] = _e150;
                    uint _e151 = j;
                    uint _e153 = j;
                    int _e155 = u[_e153];
                    float _e156 = int_to_float(_e155);
                    uint _e157 = j;
                    float _e159 = of_up[_e157];
                    float _e161 = keep(_e156 * _e159, params);
                    float _e164 = params.up_scale;
                    int _e165 = quantise(_e161, _e164);
                    u[_e151] = _e165;
                    uint _e166 = j;
                    uint _e171 = params.rows;
                    uint _e173 = j;
                    int _e175 = g[_e173];
                    float _e176 = gelu(2u * _e171, _e175, factors, table, _buffer_sizes);
                    uint _e177 = j;
                    int _e179 = u[_e177];
                    float _e183 = params.up_scale;
                    float _e185 = keep(static_cast<float>(_e179) * _e183, params);
                    float _e187 = keep(_e176 * _e185, params);
                    product[_e166] = _e187;
                }
            }
            uint _e194 = params.out_stride;
            uint at_5 = ((first_3 + m_10) * _e194) + naga_div(row, 4u);
            metal::float4 _e201 = product;
            float _e204 = params.next_scale;
            uint _e205 = quantise4_(_e201, _e204);
            output[at_5] = _e205;
            int _e209 = g.x;
            int _e211 = g.y;
            int _e213 = g.z;
            int _e215 = g.w;
            uint _e216 = pack(_e209, _e211, _e213, _e215);
            int _e218 = u.x;
            int _e220 = u.y;
            int _e222 = u.z;
            int _e224 = u.w;
            uint _e225 = pack(_e218, _e220, _e222, _e224);
            codes[at_5] = metal::uint2(_e216, _e225);
        }
    }
    return;
}
