// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size2;
    uint size3;
    uint size5;
    uint size6;
    uint size7;
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
struct First {
    uint column;
    uint spare_a;
    uint spare_b;
    uint spare_c;
};
typedef metal::float4 type_10[1];
typedef metal::uint4 type_11[1];
struct type_12 {
    metal::float4 inner[128];
};
typedef Column type_13[1];
typedef metal::float2 type_14[1];
struct type_15 {
    metal::uint4 inner[1032];
};
struct type_16 {
    float inner[128];
};
struct type_17 {
    float inner[2];
};
struct type_18 {
    float inner[64];
};
struct type_19 {
    metal::float4 inner[4];
};
struct type_20 {
    metal::float2 inner[1];
};
struct type_21 {
    float inner[1];
};
struct type_22 {
    metal::uint4 inner[16];
};
struct type_24 {
    metal::float4 inner[2];
};
struct type_25 {
    float inner[8];
};
struct type_26 {
    metal::uint2 inner[8];
};
constant uint FORMAT = 1u;
constant uint HEADS = 2u;
constant uint DIM = 256u;
constant uint STAGED = 32u;
constant bool NATIVE_HALF = true;
constant bool REASSOCIATES = true;
constant type_8 EXP_COEFFICIENTS = type_8 {{984945178u, 1007230193u, 1026206841u, 1042983497u, 1056964606u, 1065353216u, 1065353216u}};
constant uint THREADS = 256u;
constant uint ROW = 32u;
constant uint MINE = 8u;
constant uint STAGE = 1024u;
constant uint P = 4u;
constant uint STAGES = 2u;
constant uint HELD = 16u;
constant uint PAIRS = 128u;
constant uint ITEMS = 1u;
constant uint APART = 129u;

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
    bool local_4 = {};
    bool local_5 = {};
    bool local_6 = {};
    bool local_7 = {};
    bool local_8 = {};
    uint q = {};
    int r = {};
    int i_3 = 0;
    bool local_9 = {};
    int i_4 = 0;
    bool local_10 = {};
    uint x_11 = as_type<uint>(a_2);
    uint y_2 = as_type<uint>(b_2);
    uint ex = (x_11 >> 23u) & 255u;
    uint ey = (y_2 >> 23u) & 255u;
    uint mx = (x_11 & 8388607u) | 8388608u;
    uint my = (y_2 & 8388607u) | 8388608u;
    bool big = mx >= my;
    uint shift_1 = big ? 23u : 24u;
    int e_1 = as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(as_type<int>(as_type<uint>(static_cast<int>(ex)) - as_type<uint>(static_cast<int>(ey)))) + as_type<uint>(127))) - as_type<uint>(big ? 0 : 1));
    if (!((ex == 0u))) {
        local_4 = ey == 0u;
    } else {
        local_4 = true;
    }
    bool _e41 = local_4;
    if (!(_e41)) {
        local_5 = ex == 255u;
    } else {
        local_5 = true;
    }
    bool _e48 = local_5;
    if (!(_e48)) {
        local_6 = ey == 255u;
    } else {
        local_6 = true;
    }
    bool _e55 = local_6;
    if (!(_e55)) {
        local_7 = e_1 <= 0;
    } else {
        local_7 = true;
    }
    bool _e62 = local_7;
    if (!(_e62)) {
        local_8 = e_1 >= 255;
    } else {
        local_8 = true;
    }
    bool _e69 = local_8;
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
            int _e113 = i_3;
            i_3 = as_type<int>(as_type<uint>(_e113) + as_type<uint>(1));
        }
        loop_init = false;
        int _e96 = i_3;
        if (_e96 < 64) {
            int _e101 = r;
            int _e102 = r;
            local_9 = as_type<int>(as_type<uint>(_e101) + as_type<uint>(_e102)) > divisor;
        } else {
            local_9 = false;
        }
        bool _e106 = local_9;
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
            int _e135 = i_4;
            i_4 = as_type<int>(as_type<uint>(_e135) + as_type<uint>(1));
        }
        loop_init_1 = false;
        int _e117 = i_4;
        if (_e117 < 64) {
            int _e122 = r;
            int _e123 = r;
            local_10 = as_type<int>(as_type<uint>(_e122) + as_type<uint>(_e123)) < naga_neg(divisor);
        } else {
            local_10 = false;
        }
        bool _e128 = local_10;
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
    return as_type<float>(((x_11 ^ y_2) & 2147483648u) | ((static_cast<uint>(e_1) << 23u) + (_e143 - 8388608u)));
}

int naga_div(int lhs, int rhs) {
    return lhs / metal::select(rhs, 1, (lhs == (-2147483647 - 1) & rhs == -1) | (rhs == 0));
}

float square_root(
    float x_4
) {
    uint s = {};
    int r_1 = {};
    int i_5 = 0;
    bool local_11 = {};
    int i_6 = 0;
    bool local_12 = {};
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
            int _e62 = i_5;
            i_5 = as_type<int>(as_type<uint>(_e62) + as_type<uint>(1));
        }
        loop_init_2 = false;
        int _e39 = i_5;
        if (_e39 < 64) {
            int _e44 = r_1;
            uint _e45 = s;
            local_11 = _e44 > static_cast<int>(_e45);
        } else {
            local_11 = false;
        }
        bool _e49 = local_11;
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
            int _e90 = i_6;
            i_6 = as_type<int>(as_type<uint>(_e90) + as_type<uint>(1));
        }
        loop_init_3 = false;
        int _e66 = i_6;
        if (_e66 < 64) {
            int _e71 = r_1;
            uint _e72 = s;
            local_12 = _e71 <= naga_neg(static_cast<int>(_e72));
        } else {
            local_12 = false;
        }
        bool _e77 = local_12;
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
    bool local_13 = {};
    bool local_14 = {};
    uint half_ = 1u << (shift - 1u);
    if (!((rest > half_))) {
        if (rest == half_) {
            local_14 = (m & 1u) == 1u;
        } else {
            local_14 = false;
        }
        bool _e19 = local_14;
        local_13 = _e19;
    } else {
        local_13 = true;
    }
    bool up = local_13;
    float _e28 = power_of_two(static_cast<int>(shift));
    return static_cast<float>(m + (up ? 1u : 0u)) * _e28;
}

int naga_abs(int val) {
    return metal::select(as_type<int>(-as_type<uint>(val)), val, val >= 0);
}

float int_to_float(
    int i_7
) {
    uint m_2 = static_cast<uint>(naga_abs(i_7));
    if (m_2 < 16777216u) {
        return static_cast<float>(i_7);
    }
    uint shift_2 = 8u - metal::clz(m_2);
    float _e15 = round_bits(m_2 >> shift_2, m_2 & ((1u << shift_2) - 1u), shift_2);
    return (i_7 < 0) ? -(_e15) : _e15;
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
    uint h_4 = static_cast<uint>(_e21);
    if (h_4 < 65536u) {
        uint _e28 = low;
        y = static_cast<float>((h_4 * 256u) + _e28);
    } else {
        uint shift_3 = 16u - metal::clz(h_4);
        if (shift_3 <= 8u) {
            uint _e39 = low;
            uint _e42 = low;
            float _e48 = round_bits((h_4 << (8u - shift_3)) | (_e39 >> shift_3), _e42 & ((1u << shift_3) - 1u), shift_3);
            y = _e48;
        } else {
            uint lost = shift_3 - 8u;
            uint _e59 = low;
            float _e61 = round_bits(h_4 >> lost, ((h_4 & ((1u << lost) - 1u)) << 8u) | _e59, shift_3);
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
    int i_8 = 0;
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            int _e15 = i_8;
            i_8 = as_type<int>(as_type<uint>(_e15) + as_type<uint>(1));
        }
        loop_init_4 = false;
        int _e6 = i_8;
        if (_e6 < 4) {
        } else {
            break;
        }
        {
            int _e9 = i_8;
            int _e11 = i_8;
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
    int i_9 = 0;
    uint2 loop_bound_5 = uint2(4294967295u);
    bool loop_init_5 = true;
    while(true) {
        if (metal::all(loop_bound_5 == uint2(0u))) { break; }
        loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
        if (!loop_init_5) {
            int _e15 = i_9;
            i_9 = as_type<int>(as_type<uint>(_e15) + as_type<uint>(1));
        }
        loop_init_5 = false;
        int _e6 = i_9;
        if (_e6 < 4) {
        } else {
            break;
        }
        {
            int _e9 = i_9;
            int _e11 = i_9;
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
    int w_6 = as_type<int>(word);
    return metal::int4(w_6 << 24u, w_6 << 16u, w_6 << 8u, w_6) >> metal::uint4(24u);
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
    int i_10 = 1;
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
            int _e33 = i_10;
            i_10 = as_type<int>(as_type<uint>(_e33) + as_type<uint>(1));
        }
        loop_init_6 = false;
        int _e23 = i_10;
        if (_e23 < 7) {
        } else {
            break;
        }
        {
            float _e26 = p;
            int _e28 = i_10;
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
    bool local_15 = {};
    bool local_16 = {};
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
                local_16 = (units_1 & 1u) == 1u;
            } else {
                local_16 = false;
            }
            bool _e50 = local_16;
            local_15 = _e50;
        } else {
            local_15 = true;
        }
        bool _e52 = local_15;
        return sign | (units_1 + (_e52 ? 1u : 0u));
    }
    uint body = magnitude - 939524096u;
    uint rounded = (body + 4095u) + ((body >> 13u) & 1u);
    return sign | metal::min(rounded >> 13u, 31743u);
}

float from_half(
    uint h_1
) {
    uint sign_1 = (h_1 & 32768u) << 16u;
    uint e_3 = (h_1 >> 10u) & 31u;
    uint f = h_1 & 1023u;
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

uint naga_mod(uint lhs, uint rhs) {
    return lhs % metal::select(rhs, 1u, rhs == 0u);
}

uint slot_of(
    uint position,
    constant Params& params
) {
    uint _e3 = params.slots;
    uint _e7 = params.ring;
    return (_e7 == 1u) ? naga_mod(position, _e3) : position;
}

uint naga_div(uint lhs, uint rhs) {
    return lhs / metal::select(rhs, 1u, rhs == 0u);
}

void take_queries(
    uint column,
    uint block,
    uint last,
    uint head,
    uint group_1,
    uint local_17,
    constant Params& params,
    device type_10 const& query,
    threadgroup type_12& q_1,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint i_11 = {};
    i_11 = local_17;
    uint2 loop_bound_7 = uint2(4294967295u);
    bool loop_init_7 = true;
    while(true) {
        if (metal::all(loop_bound_7 == uint2(0u))) { break; }
        loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
        if (!loop_init_7) {
            uint _e27 = i_11;
            i_11 = _e27 + THREADS;
        }
        loop_init_7 = false;
        uint _e7 = i_11;
        if (_e7 < 128u) {
        } else {
            break;
        }
        {
            uint _e11 = i_11;
            uint _e16 = params.in_stride;
            uint _e23 = i_11;
            metal::float4 _e26 = query[naga_div((column * _e16) + (head * DIM), 4u) + _e23];
            q_1.inner[_e11] = _e26;
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

bool is_fresh(
    uint position_1,
    uint last_1
) {
    return false;
}

uint fresh_word(
    uint side,
    uint index
) {
    return 0u;
}

metal::float4 float4_(
    metal::uint4 w
) {
    return as_type<metal::float4>(w);
}

uint word_at(
    uint index_1,
    device type_11 const& kv,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e8 = kv[naga_div(index_1, 4u)][naga_mod(index_1, 4u)];
    return _e8;
}

metal::uint4 fresh_vector(
    uint side_1,
    uint i_12
) {
    uint _e4 = fresh_word(side_1, 4u * i_12);
    uint _e9 = fresh_word(side_1, (4u * i_12) + 1u);
    uint _e14 = fresh_word(side_1, (4u * i_12) + 2u);
    uint _e19 = fresh_word(side_1, (4u * i_12) + 3u);
    return metal::uint4(_e4, _e9, _e14, _e19);
}

uint key_vector(
    uint part,
    uint n_1
) {
    if (false) {
        return ((naga_div(n_1, 2u) * 8u) + (part * 2u)) + naga_mod(n_1, 2u);
    }
    if (true) {
        return (n_1 * 4u) + part;
    }
    return (n_1 * 2u) + naga_div(part, 2u);
}

uint value_vector(
    uint n_2,
    uint local_18
) {
    return (naga_div(n_2, P) * STAGE) + metal::min((naga_mod(n_2, P) * THREADS) + local_18, 1023u);
}

metal::uint4 key_at(
    uint row,
    uint part_1,
    uint n_3,
    device type_11 const& kv,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e8 = key_vector(part_1, metal::min(n_3, 7u));
    metal::uint4 _e11 = kv[(row * ROW) + _e8];
    return _e11;
}

metal::uint4 value_at(
    uint row_1,
    uint n_4,
    uint local_19,
    constant Params& params,
    device type_11 const& kv,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e6 = params.kv_values;
    uint _e14 = value_vector(metal::min(n_4, 7u), local_19);
    metal::uint4 _e17 = kv[(naga_div(_e6, 4u) + (row_1 * ROW)) + _e14];
    return _e17;
}

type_22 keys_of(
    uint row_2,
    uint part_2,
    uint n_5,
    device type_11 const& kv,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_22 w_1 = {};
    metal::uint4 _e5 = key_at(row_2, part_2, n_5, kv, _buffer_sizes);
    w_1.inner[0] = _e5;
    metal::uint4 _e9 = key_at(row_2, part_2, n_5 + 1u, kv, _buffer_sizes);
    w_1.inner[1] = _e9;
    metal::uint4 _e13 = key_at(row_2, part_2, n_5 + 2u, kv, _buffer_sizes);
    w_1.inner[2] = _e13;
    metal::uint4 _e17 = key_at(row_2, part_2, n_5 + 3u, kv, _buffer_sizes);
    w_1.inner[3] = _e17;
    if (true) {
        metal::uint4 _e22 = key_at(row_2, part_2, n_5 + 4u, kv, _buffer_sizes);
        w_1.inner[4] = _e22;
        metal::uint4 _e26 = key_at(row_2, part_2, n_5 + 5u, kv, _buffer_sizes);
        w_1.inner[5] = _e26;
        metal::uint4 _e30 = key_at(row_2, part_2, n_5 + 6u, kv, _buffer_sizes);
        w_1.inner[6] = _e30;
        metal::uint4 _e34 = key_at(row_2, part_2, n_5 + 7u, kv, _buffer_sizes);
        w_1.inner[7] = _e34;
    }
    if (false) {
        metal::uint4 _e39 = key_at(row_2, part_2, n_5 + 8u, kv, _buffer_sizes);
        w_1.inner[8] = _e39;
        metal::uint4 _e43 = key_at(row_2, part_2, n_5 + 9u, kv, _buffer_sizes);
        w_1.inner[9] = _e43;
        metal::uint4 _e47 = key_at(row_2, part_2, n_5 + 10u, kv, _buffer_sizes);
        w_1.inner[10] = _e47;
        metal::uint4 _e51 = key_at(row_2, part_2, n_5 + 11u, kv, _buffer_sizes);
        w_1.inner[11] = _e51;
        metal::uint4 _e55 = key_at(row_2, part_2, n_5 + 12u, kv, _buffer_sizes);
        w_1.inner[12] = _e55;
        metal::uint4 _e59 = key_at(row_2, part_2, n_5 + 13u, kv, _buffer_sizes);
        w_1.inner[13] = _e59;
        metal::uint4 _e63 = key_at(row_2, part_2, n_5 + 14u, kv, _buffer_sizes);
        w_1.inner[14] = _e63;
        metal::uint4 _e67 = key_at(row_2, part_2, n_5 + 15u, kv, _buffer_sizes);
        w_1.inner[15] = _e67;
    }
    type_22 _e68 = w_1;
    return _e68;
}

type_22 values_of(
    uint row_3,
    uint local_20,
    constant Params& params,
    device type_11 const& kv,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_22 w_2 = {};
    metal::uint4 _e5 = value_at(row_3, 0u, local_20, params, kv, _buffer_sizes);
    w_2.inner[0] = _e5;
    metal::uint4 _e8 = value_at(row_3, 1u, local_20, params, kv, _buffer_sizes);
    w_2.inner[1] = _e8;
    metal::uint4 _e11 = value_at(row_3, 2u, local_20, params, kv, _buffer_sizes);
    w_2.inner[2] = _e11;
    metal::uint4 _e14 = value_at(row_3, 3u, local_20, params, kv, _buffer_sizes);
    w_2.inner[3] = _e14;
    if (true) {
        metal::uint4 _e18 = value_at(row_3, 4u, local_20, params, kv, _buffer_sizes);
        w_2.inner[4] = _e18;
        metal::uint4 _e21 = value_at(row_3, 5u, local_20, params, kv, _buffer_sizes);
        w_2.inner[5] = _e21;
        metal::uint4 _e24 = value_at(row_3, 6u, local_20, params, kv, _buffer_sizes);
        w_2.inner[6] = _e24;
        metal::uint4 _e27 = value_at(row_3, 7u, local_20, params, kv, _buffer_sizes);
        w_2.inner[7] = _e27;
    }
    if (false) {
        metal::uint4 _e31 = value_at(row_3, 8u, local_20, params, kv, _buffer_sizes);
        w_2.inner[8] = _e31;
        metal::uint4 _e34 = value_at(row_3, 9u, local_20, params, kv, _buffer_sizes);
        w_2.inner[9] = _e34;
        metal::uint4 _e37 = value_at(row_3, 10u, local_20, params, kv, _buffer_sizes);
        w_2.inner[10] = _e37;
        metal::uint4 _e40 = value_at(row_3, 11u, local_20, params, kv, _buffer_sizes);
        w_2.inner[11] = _e40;
        metal::uint4 _e43 = value_at(row_3, 12u, local_20, params, kv, _buffer_sizes);
        w_2.inner[12] = _e43;
        metal::uint4 _e46 = value_at(row_3, 13u, local_20, params, kv, _buffer_sizes);
        w_2.inner[13] = _e46;
        metal::uint4 _e49 = value_at(row_3, 14u, local_20, params, kv, _buffer_sizes);
        w_2.inner[14] = _e49;
        metal::uint4 _e52 = value_at(row_3, 15u, local_20, params, kv, _buffer_sizes);
        w_2.inner[15] = _e52;
    }
    type_22 _e53 = w_2;
    return _e53;
}

metal::uint2 staged(
    uint key,
    uint pair,
    threadgroup type_15& shared_vectors
) {
    uint at = (key * ROW) * 4u;
    if (false) {
        uint i_16 = at + (2u * pair);
        uint _e17 = shared_vectors.inner[naga_div(i_16, 4u)][naga_mod(i_16, 4u)];
        uint _e27 = shared_vectors.inner[naga_div(i_16, 4u)][naga_mod(i_16, 4u) + 1u];
        return metal::uint2(_e17, _e27);
    }
    uint i_17 = at + (false ? naga_div(pair, 2u) : pair);
    uint _e41 = shared_vectors.inner[naga_div(i_17, 4u)][naga_mod(i_17, 4u)];
    return metal::uint2(_e41, 0u);
}

void add_key(
    uint n_6,
    metal::uint4 stored,
    uint part_3,
    bool fresh_key,
    float unit,
    constant Params& params,
    threadgroup type_12& q_1,
    thread type_19& lanes
) {
    metal::uint4 w_3 = {};
    uint h_2 = 0u;
    type_24 x_9 = {};
    uint h_3 = 0u;
    if (n_6 >= MINE) {
        return;
    }
    w_3 = stored;
    if (fresh_key) {
        uint _e9 = key_vector(part_3, n_6);
        metal::uint4 _e10 = fresh_vector(0u, _e9);
        w_3 = _e10;
    }
    if (false) {
        uint2 loop_bound_8 = uint2(4294967295u);
        bool loop_init_8 = true;
        while(true) {
            if (metal::all(loop_bound_8 == uint2(0u))) { break; }
            loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
            if (!loop_init_8) {
                uint _e40 = h_2;
                h_2 = _e40 + 1u;
            }
            loop_init_8 = false;
            uint _e14 = h_2;
            if (_e14 < HEADS) {
            } else {
                break;
            }
            {
                uint _e18 = h_2;
                uint lane = (2u * _e18) + naga_mod(n_6, 2u);
                uint _e26 = h_2;
                uint _e29 = key_vector(part_3, n_6);
                metal::float4 _e32 = q_1.inner[(_e26 * 64u) + _e29];
                metal::uint4 _e33 = w_3;
                metal::float4 _e34 = float4_(_e33);
                metal::float4 _e37 = lanes.inner[lane];
                metal::float4 _e38 = fused4_(_e32, _e34, _e37);
                lanes.inner[lane] = _e38;
            }
        }
        return;
    }
    if (true) {
        uint _e46 = w_3.x;
        metal::float2 _e47 = halves(_e46);
        uint _e49 = w_3.y;
        metal::float2 _e50 = halves(_e49);
        x_9.inner[0] = metal::float4(_e47, _e50);
        uint _e54 = w_3.z;
        metal::float2 _e55 = halves(_e54);
        uint _e57 = w_3.w;
        metal::float2 _e58 = halves(_e57);
        x_9.inner[1] = metal::float4(_e55, _e58);
    } else {
        metal::uint4 _e60 = w_3;
        metal::uint4 _e62 = w_3;
        metal::uint2 half_2 = (naga_mod(part_3, 2u) == 1u) ? _e62.zw : _e60.xy;
        metal::int4 _e71 = codes4_(half_2.x);
        metal::float4 _e74 = keep4_(static_cast<metal::float4>(_e71) * unit, params);
        x_9.inner[0] = _e74;
        metal::int4 _e77 = codes4_(half_2.y);
        metal::float4 _e80 = keep4_(static_cast<metal::float4>(_e77) * unit, params);
        x_9.inner[1] = _e80;
    }
    uint2 loop_bound_9 = uint2(4294967295u);
    bool loop_init_9 = true;
    while(true) {
        if (metal::all(loop_bound_9 == uint2(0u))) { break; }
        loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
        if (!loop_init_9) {
            uint _e136 = h_3;
            h_3 = _e136 + 1u;
        }
        loop_init_9 = false;
        uint _e83 = h_3;
        if (_e83 < HEADS) {
        } else {
            break;
        }
        {
            uint _e86 = h_3;
            uint at_1 = ((_e86 * 64u) + (n_6 * 8u)) + (2u * part_3);
            uint _e97 = h_3;
            metal::float4 _e102 = q_1.inner[at_1];
            metal::float4 _e104 = x_9.inner[0];
            uint _e107 = h_3;
            metal::float4 _e110 = lanes.inner[2u * _e107];
            metal::float4 _e111 = fused4_(_e102, _e104, _e110);
            lanes.inner[2u * _e97] = _e111;
            uint _e114 = h_3;
            metal::float4 _e123 = q_1.inner[at_1 + 1u];
            metal::float4 _e125 = x_9.inner[1];
            uint _e128 = h_3;
            metal::float4 _e133 = lanes.inner[(2u * _e128) + 1u];
            metal::float4 _e134 = fused4_(_e123, _e125, _e133);
            lanes.inner[(2u * _e114) + 1u] = _e134;
        }
    }
    return;
}

void store_value(
    uint i_13,
    metal::uint4 w_4,
    uint stage_1,
    uint fresh_at,
    uint local_21,
    threadgroup type_15& shared_vectors
) {
    bool local_22 = {};
    metal::uint4 vector = {};
    uint at_2 = (i_13 * THREADS) + local_21;
    if (!((i_13 >= P))) {
        local_22 = at_2 >= STAGE;
    } else {
        local_22 = true;
    }
    bool _e16 = local_22;
    if (_e16) {
        return;
    }
    vector = w_4;
    if (((stage_1 * STAGED) + naga_div(at_2, ROW)) == fresh_at) {
        metal::uint4 _e27 = fresh_vector(1u, naga_mod(at_2, ROW));
        vector = _e27;
    }
    metal::uint4 _e30 = vector;
    shared_vectors.inner[at_2] = _e30;
    return;
}

void add_stage(
    uint stage_2,
    metal::uint4 w0_,
    metal::uint4 w1_,
    metal::uint4 w2_,
    metal::uint4 w3_,
    uint fresh_at_1,
    uint local_23,
    constant Params& params,
    threadgroup type_15& shared_vectors,
    threadgroup type_16& weights,
    threadgroup type_18& units,
    thread type_20& sums,
    thread type_21& totals
) {
    uint item_2 = 0u;
    uint start = {};
    type_25 p_1 = {};
    type_26 w_5 = {};
    uint i_14 = {};
    uint i_15 = {};
    metal::float2 x_10 = {};
    if (stage_2 > 0u) {
        metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    }
    store_value(0u, w0_, stage_2, fresh_at_1, local_23, shared_vectors);
    store_value(1u, w1_, stage_2, fresh_at_1, local_23, shared_vectors);
    store_value(2u, w2_, stage_2, fresh_at_1, local_23, shared_vectors);
    store_value(3u, w3_, stage_2, fresh_at_1, local_23, shared_vectors);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint2 loop_bound_10 = uint2(4294967295u);
    bool loop_init_10 = true;
    while(true) {
        if (metal::all(loop_bound_10 == uint2(0u))) { break; }
        loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
        if (!loop_init_10) {
            uint _e162 = item_2;
            item_2 = _e162 + 1u;
        }
        loop_init_10 = false;
        uint _e15 = item_2;
        if (_e15 < ITEMS) {
        } else {
            break;
        }
        {
            uint _e18 = item_2;
            uint at_3 = (_e18 * THREADS) + local_23;
            if (at_3 < 256u) {
                uint pair_1 = naga_mod(at_3, PAIRS);
                uint weights_at = (naga_div(at_3, PAIRS) * 64u) + (stage_2 * STAGED);
                start = 0u;
                uint2 loop_bound_11 = uint2(4294967295u);
                bool loop_init_11 = true;
                while(true) {
                    if (metal::all(loop_bound_11 == uint2(0u))) { break; }
                    loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
                    if (!loop_init_11) {
                        uint _e158 = start;
                        start = _e158 + 8u;
                    }
                    loop_init_11 = false;
                    uint _e35 = start;
                    if (_e35 < STAGED) {
                    } else {
                        break;
                    }
                    {
                        p_1 = type_25 {};
                        w_5 = type_26 {};
                        i_14 = 0u;
                        uint2 loop_bound_12 = uint2(4294967295u);
                        bool loop_init_12 = true;
                        while(true) {
                            if (metal::all(loop_bound_12 == uint2(0u))) { break; }
                            loop_bound_12 -= uint2(loop_bound_12.y == 0u, 1u);
                            if (!loop_init_12) {
                                uint _e63 = i_14;
                                i_14 = _e63 + 1u;
                            }
                            loop_init_12 = false;
                            uint _e44 = i_14;
                            if (_e44 < 8u) {
                            } else {
                                break;
                            }
                            {
                                uint _e47 = i_14;
                                uint _e50 = start;
                                uint _e52 = i_14;
                                float _e55 = weights.inner[(weights_at + _e50) + _e52];
                                p_1.inner[_e47] = _e55;
                                uint _e56 = i_14;
                                uint _e58 = start;
                                uint _e59 = i_14;
                                metal::uint2 _e61 = staged(_e58 + _e59, pair_1, shared_vectors);
                                w_5.inner[_e56] = _e61;
                            }
                        }
                        i_15 = 0u;
                        uint2 loop_bound_13 = uint2(4294967295u);
                        bool loop_init_13 = true;
                        while(true) {
                            if (metal::all(loop_bound_13 == uint2(0u))) { break; }
                            loop_bound_13 -= uint2(loop_bound_13.y == 0u, 1u);
                            if (!loop_init_13) {
                                uint _e156 = i_15;
                                i_15 = _e156 + 1u;
                            }
                            loop_init_13 = false;
                            uint _e67 = i_15;
                            if (_e67 < 8u) {
                            } else {
                                break;
                            }
                            {
                                x_10 = metal::float2 {};
                                if (false) {
                                    uint _e73 = i_15;
                                    metal::uint2 _e75 = w_5.inner[_e73];
                                    x_10 = as_type<metal::float2>(_e75);
                                } else {
                                    if (true) {
                                        uint _e78 = i_15;
                                        uint _e81 = w_5.inner[_e78].x;
                                        metal::float2 _e82 = halves(_e81);
                                        x_10 = _e82;
                                    } else {
                                        uint _e86 = start;
                                        uint _e88 = i_15;
                                        float unit_1 = units.inner[((stage_2 * STAGED) + _e86) + _e88];
                                        uint _e92 = i_15;
                                        uint _e95 = w_5.inner[_e92].x;
                                        uint _e96 = i_15;
                                        uint _e99 = w_5.inner[_e96].x;
                                        metal::int4 _e107 = codes4_((naga_mod(pair_1, 2u) == 1u) ? (_e99 >> 16u) : _e95);
                                        float _e111 = keep(static_cast<float>(_e107.x) * unit_1, params);
                                        float _e115 = keep(static_cast<float>(_e107.y) * unit_1, params);
                                        x_10 = metal::float2(_e111, _e115);
                                    }
                                }
                                uint _e118 = item_2;
                                uint _e120 = i_15;
                                float _e122 = p_1.inner[_e120];
                                float _e124 = x_10.x;
                                uint _e126 = item_2;
                                float _e129 = sums.inner[_e126].x;
                                float _e130 = fused(_e122, _e124, _e129);
                                uint _e131 = i_15;
                                float _e133 = p_1.inner[_e131];
                                float _e135 = x_10.y;
                                uint _e137 = item_2;
                                float _e140 = sums.inner[_e137].y;
                                float _e141 = fused(_e133, _e135, _e140);
                                sums.inner[_e118] = metal::float2(_e130, _e141);
                                uint _e144 = item_2;
                                uint _e147 = item_2;
                                float _e149 = totals.inner[_e147];
                                uint _e150 = i_15;
                                float _e152 = p_1.inner[_e150];
                                float _e154 = added(_e149 + _e152, params);
                                totals.inner[_e144] = _e154;
                            }
                        }
                    }
                }
            }
        }
    }
    return;
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint local [[thread_index_in_threadgroup]]
, constant Params& params [[user(fake0)]]
, constant First& first [[user(fake0)]]
, device type_10 const& query [[user(fake0)]]
, device type_11 const& kv [[user(fake0)]]
, threadgroup type_12& q_1
, device type_13 const& columns [[user(fake0)]]
, device type_14& tops [[user(fake0)]]
, device type_14& partial [[user(fake0)]]
, threadgroup type_15& shared_vectors
, threadgroup type_16& scores
, threadgroup type_16& weights
, threadgroup type_17& highest
, threadgroup type_18& units
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    type_19 lanes = {};
    type_20 sums = {};
    type_21 totals = {};
    if (local == 0u) {
        q_1 = {};
        shared_vectors = {};
        scores = {};
        weights = {};
        highest = {};
        units = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint begin = 0u;
    bool local_1 = {};
    type_22 keys = {};
    type_22 values = {};
    float key_unit = 0.0;
    float value_unit = 0.0;
    uint i = 0u;
    uint base = 0u;
    uint h = 0u;
    bool local_2 = {};
    float score = -340282350000000000000000000000000000000.0;
    type_7 all = {};
    uint i_1 = 0u;
    metal::float4 top = metal::float4(-340282350000000000000000000000000000000.0);
    uint i_2 = 0u;
    float weight = 0.0;
    uint item = 0u;
    bool local_3 = {};
    uint stage = 4u;
    uint item_1 = 0u;
    uint _e4 = first.column;
    uint column_1 = _e4 + group.z;
    uint last_2 = columns[column_1].position;
    uint _e15 = params.window;
    if (_e15 != 0u) {
        uint _e24 = params.window;
        local_1 = (last_2 + 1u) > _e24;
    } else {
        local_1 = false;
    }
    bool _e27 = local_1;
    if (_e27) {
        uint _e32 = params.window;
        begin = (last_2 + 1u) - _e32;
    }
    uint _e34 = begin;
    uint block_1 = naga_div(_e34, 64u) + group.x;
    if ((block_1 * 64u) > last_2) {
        return;
    }
    uint head_1 = group.y * HEADS;
    uint _e47 = params.heads;
    uint _e50 = params.kv_heads;
    uint kv_head = naga_div(head_1, naga_div(_e47, _e50));
    uint _e55 = params.slots;
    uint _e59 = slot_of(block_1 * 64u, params);
    uint rows = (kv_head * _e55) + _e59;
    uint key_1 = naga_div(local, 4u);
    uint part_4 = naga_mod(local, 4u);
    type_22 _e67 = keys_of(rows + key_1, part_4, 0u, kv, _buffer_sizes);
    keys = _e67;
    type_22 _e69 = values_of(rows, local, params, kv, _buffer_sizes);
    values = _e69;
    if (false) {
        uint _e78 = params.kv_key_scales;
        uint _e81 = word_at((_e78 + rows) + key_1, kv, _buffer_sizes);
        key_unit = as_type<float>(_e81);
        uint _e85 = params.kv_value_scales;
        uint _e90 = word_at((_e85 + rows) + naga_mod(local, 64u), kv, _buffer_sizes);
        value_unit = as_type<float>(_e90);
    }
    take_queries(column_1, block_1, last_2, head_1, group.x, local, params, query, q_1, _buffer_sizes);
    bool _e96 = is_fresh((block_1 * 64u) + key_1, last_2);
    if (false) {
        if (_e96) {
            uint _e100 = fresh_word(0u, 64u);
            key_unit = as_type<float>(_e100);
        }
        bool _e107 = is_fresh((block_1 * 64u) + naga_mod(local, 64u), last_2);
        if (_e107) {
            uint _e110 = fresh_word(1u, 64u);
            value_unit = as_type<float>(_e110);
        }
        if (local < 64u) {
            float _e116 = value_unit;
            units.inner[local] = _e116;
        }
    }
    uint2 loop_bound_14 = uint2(4294967295u);
    bool loop_init_14 = true;
    while(true) {
        if (metal::all(loop_bound_14 == uint2(0u))) { break; }
        loop_bound_14 -= uint2(loop_bound_14.y == 0u, 1u);
        if (!loop_init_14) {
            uint _e127 = i;
            i = _e127 + 1u;
        }
        loop_init_14 = false;
        uint _e119 = i;
        if (_e119 < 4u) {
        } else {
            break;
        }
        {
            uint _e123 = i;
            lanes.inner[_e123] = metal::float4 {};
        }
    }
    uint2 loop_bound_15 = uint2(4294967295u);
    bool loop_init_15 = true;
    while(true) {
        if (metal::all(loop_bound_15 == uint2(0u))) { break; }
        loop_bound_15 -= uint2(loop_bound_15.y == 0u, 1u);
        if (!loop_init_15) {
            uint _e238 = base;
            base = _e238 + HELD;
        }
        loop_init_15 = false;
        uint _e131 = base;
        if (_e131 < MINE) {
        } else {
            break;
        }
        {
            uint _e134 = base;
            if (_e134 > 0u) {
                uint _e138 = base;
                type_22 _e139 = keys_of(rows + key_1, part_4, _e138, kv, _buffer_sizes);
                keys = _e139;
            }
            uint _e140 = base;
            metal::uint4 _e144 = keys.inner[0];
            float _e145 = key_unit;
            add_key(_e140 + 0u, _e144, part_4, _e96, _e145, params, q_1, lanes);
            uint _e146 = base;
            metal::uint4 _e150 = keys.inner[1];
            float _e151 = key_unit;
            add_key(_e146 + 1u, _e150, part_4, _e96, _e151, params, q_1, lanes);
            uint _e152 = base;
            metal::uint4 _e156 = keys.inner[2];
            float _e157 = key_unit;
            add_key(_e152 + 2u, _e156, part_4, _e96, _e157, params, q_1, lanes);
            uint _e158 = base;
            metal::uint4 _e162 = keys.inner[3];
            float _e163 = key_unit;
            add_key(_e158 + 3u, _e162, part_4, _e96, _e163, params, q_1, lanes);
            if (true) {
                uint _e165 = base;
                metal::uint4 _e169 = keys.inner[4];
                float _e170 = key_unit;
                add_key(_e165 + 4u, _e169, part_4, _e96, _e170, params, q_1, lanes);
                uint _e171 = base;
                metal::uint4 _e175 = keys.inner[5];
                float _e176 = key_unit;
                add_key(_e171 + 5u, _e175, part_4, _e96, _e176, params, q_1, lanes);
                uint _e177 = base;
                metal::uint4 _e181 = keys.inner[6];
                float _e182 = key_unit;
                add_key(_e177 + 6u, _e181, part_4, _e96, _e182, params, q_1, lanes);
                uint _e183 = base;
                metal::uint4 _e187 = keys.inner[7];
                float _e188 = key_unit;
                add_key(_e183 + 7u, _e187, part_4, _e96, _e188, params, q_1, lanes);
            }
            if (false) {
                uint _e190 = base;
                metal::uint4 _e194 = keys.inner[8];
                float _e195 = key_unit;
                add_key(_e190 + 8u, _e194, part_4, _e96, _e195, params, q_1, lanes);
                uint _e196 = base;
                metal::uint4 _e200 = keys.inner[9];
                float _e201 = key_unit;
                add_key(_e196 + 9u, _e200, part_4, _e96, _e201, params, q_1, lanes);
                uint _e202 = base;
                metal::uint4 _e206 = keys.inner[10];
                float _e207 = key_unit;
                add_key(_e202 + 10u, _e206, part_4, _e96, _e207, params, q_1, lanes);
                uint _e208 = base;
                metal::uint4 _e212 = keys.inner[11];
                float _e213 = key_unit;
                add_key(_e208 + 11u, _e212, part_4, _e96, _e213, params, q_1, lanes);
                uint _e214 = base;
                metal::uint4 _e218 = keys.inner[12];
                float _e219 = key_unit;
                add_key(_e214 + 12u, _e218, part_4, _e96, _e219, params, q_1, lanes);
                uint _e220 = base;
                metal::uint4 _e224 = keys.inner[13];
                float _e225 = key_unit;
                add_key(_e220 + 13u, _e224, part_4, _e96, _e225, params, q_1, lanes);
                uint _e226 = base;
                metal::uint4 _e230 = keys.inner[14];
                float _e231 = key_unit;
                add_key(_e226 + 14u, _e230, part_4, _e96, _e231, params, q_1, lanes);
                uint _e232 = base;
                metal::uint4 _e236 = keys.inner[15];
                float _e237 = key_unit;
                add_key(_e232 + 15u, _e236, part_4, _e96, _e237, params, q_1, lanes);
            }
        }
    }
    uint2 loop_bound_16 = uint2(4294967295u);
    bool loop_init_16 = true;
    while(true) {
        if (metal::all(loop_bound_16 == uint2(0u))) { break; }
        loop_bound_16 -= uint2(loop_bound_16.y == 0u, 1u);
        if (!loop_init_16) {
            uint _e287 = h;
            h = _e287 + 1u;
        }
        loop_init_16 = false;
        uint _e243 = h;
        if (_e243 < HEADS) {
        } else {
            break;
        }
        {
            uint _e251 = h;
            uint _e259 = h;
            metal::float4 _e262 = lanes.inner[2u * _e259];
            shared_vectors.inner[(((2u * part_4) * APART) + (_e251 * 64u)) + key_1] = as_type<metal::uint4>(_e262);
            uint _e271 = h;
            uint _e279 = h;
            metal::float4 _e284 = lanes.inner[(2u * _e279) + 1u];
            shared_vectors.inner[((((2u * part_4) + 1u) * APART) + (_e271 * 64u)) + key_1] = as_type<metal::uint4>(_e284);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint position_2 = (block_1 * 64u) + naga_mod(local, 64u);
    uint _e294 = begin;
    if (position_2 >= _e294) {
        local_2 = position_2 <= last_2;
    } else {
        local_2 = false;
    }
    bool visible = local_2;
    uint mine = naga_div(local, 64u);
    if (mine < HEADS) {
        if (visible) {
            uint2 loop_bound_17 = uint2(4294967295u);
            bool loop_init_17 = true;
            while(true) {
                if (metal::all(loop_bound_17 == uint2(0u))) { break; }
                loop_bound_17 -= uint2(loop_bound_17.y == 0u, 1u);
                if (!loop_init_17) {
                    uint _e324 = i_1;
                    i_1 = _e324 + 1u;
                }
                loop_init_17 = false;
                uint _e310 = i_1;
                if (_e310 < 8u) {
                } else {
                    break;
                }
                {
                    uint _e313 = i_1;
                    uint _e316 = i_1;
                    metal::uint4 _e321 = shared_vectors.inner[(_e316 * APART) + local];
                    metal::float4 _e322 = float4_(_e321);
                    all.inner[_e313] = _e322;
                }
            }
            type_7 _e326 = all;
            float _e327 = tree(_e326, params);
            score = _e327;
        }
        float _e330 = score;
        scores.inner[local] = _e330;
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    if (mine < HEADS) {
        uint2 loop_bound_18 = uint2(4294967295u);
        bool loop_init_18 = true;
        while(true) {
            if (metal::all(loop_bound_18 == uint2(0u))) { break; }
            loop_bound_18 -= uint2(loop_bound_18.y == 0u, 1u);
            if (!loop_init_18) {
                uint _e366 = i_2;
                i_2 = _e366 + 4u;
            }
            loop_init_18 = false;
            uint _e338 = i_2;
            if (_e338 < 64u) {
            } else {
                break;
            }
            {
                uint _e343 = i_2;
                uint at_4 = (mine * 64u) + _e343;
                metal::float4 _e345 = top;
                float _e348 = scores.inner[at_4];
                float _e353 = scores.inner[at_4 + 1u];
                float _e358 = scores.inner[at_4 + 2u];
                float _e363 = scores.inner[at_4 + 3u];
                top = metal::max(_e345, metal::float4(_e348, _e353, _e358, _e363));
            }
        }
        float _e370 = top.x;
        float _e372 = top.y;
        float _e375 = top.z;
        float _e377 = top.w;
        float largest_score = metal::max(metal::max(_e370, _e372), metal::max(_e375, _e377));
        if (visible) {
            float _e382 = score;
            float _e384 = keep(_e382 - largest_score, params);
            float _e385 = exponential(_e384, params);
            weight = _e385;
        }
        float _e388 = weight;
        weights.inner[local] = _e388;
        if (naga_mod(local, 64u) == 0u) {
            highest.inner[mine] = largest_score;
        }
    }
    uint2 loop_bound_19 = uint2(4294967295u);
    bool loop_init_19 = true;
    while(true) {
        if (metal::all(loop_bound_19 == uint2(0u))) { break; }
        loop_bound_19 -= uint2(loop_bound_19.y == 0u, 1u);
        if (!loop_init_19) {
            uint _e409 = item;
            item = _e409 + 1u;
        }
        loop_init_19 = false;
        uint _e397 = item;
        if (_e397 < ITEMS) {
        } else {
            break;
        }
        {
            uint _e401 = item;
            sums.inner[_e401] = metal::float2 {};
            uint _e405 = item;
            totals.inner[_e405] = 0.0;
        }
    }
    bool _e415 = is_fresh(last_2, last_2);
    if (_e415) {
        local_3 = naga_div(last_2, 64u) == block_1;
    } else {
        local_3 = false;
    }
    bool _e422 = local_3;
    uint fresh_at_2 = _e422 ? (last_2 - (block_1 * 64u)) : 64u;
    metal::uint4 _e426 = values.inner[0];
    metal::uint4 _e428 = values.inner[1];
    metal::uint4 _e430 = values.inner[2];
    metal::uint4 _e432 = values.inner[3];
    add_stage(0u, _e426, _e428, _e430, _e432, fresh_at_2, local, params, shared_vectors, weights, units, sums, totals);
    if (true) {
        metal::uint4 _e436 = values.inner[4];
        metal::uint4 _e438 = values.inner[5];
        metal::uint4 _e440 = values.inner[6];
        metal::uint4 _e442 = values.inner[7];
        add_stage(1u, _e436, _e438, _e440, _e442, fresh_at_2, local, params, shared_vectors, weights, units, sums, totals);
    }
    if (false) {
        metal::uint4 _e446 = values.inner[8];
        metal::uint4 _e448 = values.inner[9];
        metal::uint4 _e450 = values.inner[10];
        metal::uint4 _e452 = values.inner[11];
        add_stage(2u, _e446, _e448, _e450, _e452, fresh_at_2, local, params, shared_vectors, weights, units, sums, totals);
    }
    if (false) {
        metal::uint4 _e456 = values.inner[12];
        metal::uint4 _e458 = values.inner[13];
        metal::uint4 _e460 = values.inner[14];
        metal::uint4 _e462 = values.inner[15];
        add_stage(3u, _e456, _e458, _e460, _e462, fresh_at_2, local, params, shared_vectors, weights, units, sums, totals);
    }
    uint2 loop_bound_20 = uint2(4294967295u);
    bool loop_init_20 = true;
    while(true) {
        if (metal::all(loop_bound_20 == uint2(0u))) { break; }
        loop_bound_20 -= uint2(loop_bound_20.y == 0u, 1u);
        if (!loop_init_20) {
            uint _e483 = stage;
            stage = _e483 + 1u;
        }
        loop_init_20 = false;
        uint _e465 = stage;
        if (_e465 < STAGES) {
        } else {
            break;
        }
        {
            uint _e468 = stage;
            uint n_8 = _e468 * P;
            uint _e471 = stage;
            metal::uint4 _e472 = value_at(rows, n_8, local, params, kv, _buffer_sizes);
            metal::uint4 _e475 = value_at(rows, n_8 + 1u, local, params, kv, _buffer_sizes);
            metal::uint4 _e478 = value_at(rows, n_8 + 2u, local, params, kv, _buffer_sizes);
            metal::uint4 _e481 = value_at(rows, n_8 + 3u, local, params, kv, _buffer_sizes);
            add_stage(_e471, _e472, _e475, _e478, _e481, fresh_at_2, local, params, shared_vectors, weights, units, sums, totals);
        }
    }
    uint _e488 = params.partials;
    uint _e494 = params.heads;
    uint slot = (((group.z * _e488) + group.x) * _e494) + head_1;
    uint2 loop_bound_21 = uint2(4294967295u);
    bool loop_init_21 = true;
    while(true) {
        if (metal::all(loop_bound_21 == uint2(0u))) { break; }
        loop_bound_21 -= uint2(loop_bound_21.y == 0u, 1u);
        if (!loop_init_21) {
            uint _e537 = item_1;
            item_1 = _e537 + 1u;
        }
        loop_init_21 = false;
        uint _e499 = item_1;
        if (_e499 < ITEMS) {
        } else {
            break;
        }
        {
            uint _e502 = item_1;
            uint at_5 = (_e502 * THREADS) + local;
            if (at_5 < 256u) {
                uint _e514 = item_1;
                metal::float2 _e516 = sums.inner[_e514];
                partial[(slot * PAIRS) + at_5] = _e516;
                if (naga_mod(at_5, PAIRS) == 0u) {
                    float _e530 = highest.inner[naga_div(at_5, PAIRS)];
                    uint _e532 = item_1;
                    float _e534 = totals.inner[_e532];
                    tops[slot + naga_div(at_5, PAIRS)] = metal::float2(_e530, _e534);
                }
            }
        }
    }
    return;
}
