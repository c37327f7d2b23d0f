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
    metal::float4 inner[256];
};
typedef Column type_13[1];
typedef metal::float2 type_14[1];
struct type_15 {
    float inner[256];
};
struct type_16 {
    float inner[64];
};
struct type_19 {
    metal::uint2 inner[8];
};
constant uint FORMAT = 1u;
constant uint HEADS = 4u;
constant uint DIM = 256u;
constant bool NATIVE_HALF = true;
constant bool REASSOCIATES = true;
constant type_8 EXP_COEFFICIENTS = type_8 {{984945178u, 1007230193u, 1026206841u, 1042983497u, 1056964606u, 1065353216u, 1065353216u}};
constant uint THREADS = 256u;

float fused(
    float a_1,
    float b_1,
    float c
) {
    return metal::fma(a_1, b_1, c);
}

metal::float4 fused4_(
    metal::float4 a_2,
    metal::float4 b_2,
    metal::float4 c_1
) {
    return metal::fma(a_2, b_2, c_1);
}

float keep(
    float x_1,
    constant Params& params
) {
    uint _e4 = params.zero;
    return as_type<float>(as_type<uint>(x_1) ^ _e4);
}

metal::float4 keep4_(
    metal::float4 x_2,
    constant Params& params
) {
    uint _e4 = params.zero;
    return as_type<metal::float4>(as_type<metal::uint4>(x_2) ^ metal::uint4(_e4));
}

float added(
    float x_3,
    constant Params& params
) {
    if (REASSOCIATES) {
        float _e2 = keep(x_3, params);
        return _e2;
    }
    return x_3;
}

metal::float4 added4_(
    metal::float4 x_4,
    constant Params& params
) {
    if (REASSOCIATES) {
        metal::float4 _e2 = keep4_(x_4, params);
        return _e2;
    }
    return x_4;
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
    float a_3,
    float b_3
) {
    bool local_4 = {};
    bool local_5 = {};
    bool local_6 = {};
    bool local_7 = {};
    bool local_8 = {};
    uint q = {};
    int r = {};
    int i_8 = 0;
    bool local_9 = {};
    int i_9 = 0;
    bool local_10 = {};
    uint x_10 = as_type<uint>(a_3);
    uint y_2 = as_type<uint>(b_3);
    uint ex = (x_10 >> 23u) & 255u;
    uint ey = (y_2 >> 23u) & 255u;
    uint mx = (x_10 & 8388607u) | 8388608u;
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
        return a_3 / b_3;
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
            int _e113 = i_8;
            i_8 = as_type<int>(as_type<uint>(_e113) + as_type<uint>(1));
        }
        loop_init = false;
        int _e96 = i_8;
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
            int _e135 = i_9;
            i_9 = as_type<int>(as_type<uint>(_e135) + as_type<uint>(1));
        }
        loop_init_1 = false;
        int _e117 = i_9;
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
    return as_type<float>(((x_10 ^ y_2) & 2147483648u) | ((static_cast<uint>(e_1) << 23u) + (_e143 - 8388608u)));
}

int naga_div(int lhs, int rhs) {
    return lhs / metal::select(rhs, 1, (lhs == (-2147483647 - 1) & rhs == -1) | (rhs == 0));
}

float square_root(
    float x_5
) {
    uint s = {};
    int r_1 = {};
    int i_10 = 0;
    bool local_11 = {};
    int i_11 = 0;
    bool local_12 = {};
    uint bits = as_type<uint>(x_5);
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
            int _e62 = i_10;
            i_10 = as_type<int>(as_type<uint>(_e62) + as_type<uint>(1));
        }
        loop_init_2 = false;
        int _e39 = i_10;
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
            int _e90 = i_11;
            i_11 = as_type<int>(as_type<uint>(_e90) + as_type<uint>(1));
        }
        loop_init_3 = false;
        int _e66 = i_11;
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
    int i_12
) {
    uint m_2 = static_cast<uint>(naga_abs(i_12));
    if (m_2 < 16777216u) {
        return static_cast<float>(i_12);
    }
    uint shift_2 = 8u - metal::clz(m_2);
    float _e15 = round_bits(m_2 >> shift_2, m_2 & ((1u << shift_2) - 1u), shift_2);
    return (i_12 < 0) ? -(_e15) : _e15;
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
    float x_6,
    float scale
) {
    float n = {};
    if ((as_type<uint>(x_6) & 2147483647u) > 2139095040u) {
        return 0;
    }
    float near = x_6 / scale;
    if (near >= 130.0) {
        return 127;
    }
    if (near <= -130.0) {
        return -128;
    }
    n = metal::rint(near);
    float _e17 = n;
    if (metal::abs(metal::abs(near - _e17) - 0.5) < 0.001) {
        float _e25 = divide(x_6, scale);
        n = metal::rint(_e25);
    }
    float _e27 = n;
    return metal::clamp(naga_f2i32(_e27), -128, 127);
}

uint pack(
    int a_4,
    int b_4,
    int c_2,
    int d_3
) {
    return (((static_cast<uint>(a_4) & 255u) | ((static_cast<uint>(b_4) & 255u) << 8u)) | ((static_cast<uint>(c_2) & 255u) << 16u)) | (static_cast<uint>(d_3) << 24u);
}

uint quantise4_(
    metal::float4 x_7,
    float scale_1
) {
    metal::int4 code = metal::int4 {};
    int i_13 = 0;
    uint2 loop_bound_4 = uint2(4294967295u);
    bool loop_init_4 = true;
    while(true) {
        if (metal::all(loop_bound_4 == uint2(0u))) { break; }
        loop_bound_4 -= uint2(loop_bound_4.y == 0u, 1u);
        if (!loop_init_4) {
            int _e15 = i_13;
            i_13 = as_type<int>(as_type<uint>(_e15) + as_type<uint>(1));
        }
        loop_init_4 = false;
        int _e6 = i_13;
        if (_e6 < 4) {
        } else {
            break;
        }
        {
            int _e9 = i_13;
            int _e11 = i_13;
            int _e13 = quantise(x_7[_e11], scale_1);
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
    metal::float4 a_5,
    float b_5
) {
    metal::float4 y_1 = metal::float4 {};
    int i_14 = 0;
    uint2 loop_bound_5 = uint2(4294967295u);
    bool loop_init_5 = true;
    while(true) {
        if (metal::all(loop_bound_5 == uint2(0u))) { break; }
        loop_bound_5 -= uint2(loop_bound_5.y == 0u, 1u);
        if (!loop_init_5) {
            int _e15 = i_14;
            i_14 = as_type<int>(as_type<uint>(_e15) + as_type<uint>(1));
        }
        loop_init_5 = false;
        int _e6 = i_14;
        if (_e6 < 4) {
        } else {
            break;
        }
        {
            int _e9 = i_14;
            int _e11 = i_14;
            float _e13 = divide(a_5[_e11], b_5);
            y_1[_e9] = _e13;
        }
    }
    metal::float4 _e17 = y_1;
    return _e17;
}

metal::int4 codes4_(
    uint word
) {
    int w_2 = as_type<int>(word);
    return metal::int4(w_2 << 24u, w_2 << 16u, w_2 << 8u, w_2) >> metal::uint4(24u);
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
    type_7 a_6,
    constant Params& params
) {
    metal::float4 _e4 = added4_(a_6.inner[0] + a_6.inner[4], params);
    metal::float4 _e8 = added4_(a_6.inner[1] + a_6.inner[5], params);
    metal::float4 _e12 = added4_(a_6.inner[2] + a_6.inner[6], params);
    metal::float4 _e16 = added4_(a_6.inner[3] + a_6.inner[7], params);
    metal::float4 _e18 = added4_(_e4 + _e12, params);
    metal::float4 _e20 = added4_(_e8 + _e16, params);
    metal::float4 _e22 = added4_(_e18 + _e20, params);
    float _e26 = added(_e22.x + _e22.z, params);
    float _e30 = added(_e22.y + _e22.w, params);
    float _e32 = added(_e26 + _e30, params);
    return _e32;
}

float exponential(
    float x_8,
    constant Params& params
) {
    float p = {};
    int i_15 = 1;
    if (!((x_8 >= -87.0))) {
        return 0.0;
    }
    float _e8 = keep(x_8 * as_type<float>(1069066811u), params);
    float n_1 = metal::rint(_e8);
    float _e16 = fused(n_1, -(as_type<float>(1060205056u)), x_8);
    float _e17 = fused(n_1, -(as_type<float>(901758606u)), _e16);
    p = as_type<float>(984945178u);
    uint2 loop_bound_6 = uint2(4294967295u);
    bool loop_init_6 = true;
    while(true) {
        if (metal::all(loop_bound_6 == uint2(0u))) { break; }
        loop_bound_6 -= uint2(loop_bound_6.y == 0u, 1u);
        if (!loop_init_6) {
            int _e33 = i_15;
            i_15 = as_type<int>(as_type<uint>(_e33) + as_type<uint>(1));
        }
        loop_init_6 = false;
        int _e23 = i_15;
        if (_e23 < 7) {
        } else {
            break;
        }
        {
            float _e26 = p;
            int _e28 = i_15;
            float _e31 = fused(_e26, _e17, as_type<float>(EXP_COEFFICIENTS.inner[_e28]));
            p = _e31;
        }
    }
    float _e35 = p;
    float _e37 = power_of_two(naga_f2i32(n_1));
    float _e39 = keep(_e35 * _e37, params);
    return _e39;
}

uint to_half(
    float x_9
) {
    bool local_15 = {};
    bool local_16 = {};
    uint bits_1 = as_type<uint>(x_9);
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
    uint i_16 = {};
    i_16 = local_17;
    uint2 loop_bound_7 = uint2(4294967295u);
    bool loop_init_7 = true;
    while(true) {
        if (metal::all(loop_bound_7 == uint2(0u))) { break; }
        loop_bound_7 -= uint2(loop_bound_7.y == 0u, 1u);
        if (!loop_init_7) {
            uint _e27 = i_16;
            i_16 = _e27 + THREADS;
        }
        loop_init_7 = false;
        uint _e7 = i_16;
        if (_e7 < 256u) {
        } else {
            break;
        }
        {
            uint _e11 = i_16;
            uint _e16 = params.in_stride;
            uint _e23 = i_16;
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
    metal::uint4 w_1
) {
    return as_type<metal::float4>(w_1);
}

uint word_at(
    uint index_1,
    device type_11 const& kv,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint _e8 = kv[naga_div(index_1, 4u)][naga_mod(index_1, 4u)];
    return _e8;
}

metal::uint4 key4_(
    bool made_here,
    uint row,
    uint i_17,
    device type_11 const& kv,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (made_here) {
        uint _e6 = fresh_word(0u, 4u * i_17);
        uint _e12 = fresh_word(0u, (4u * i_17) + 1u);
        uint _e18 = fresh_word(0u, (4u * i_17) + 2u);
        uint _e24 = fresh_word(0u, (4u * i_17) + 3u);
        return metal::uint4(_e6, _e12, _e18, _e24);
    }
    metal::uint4 _e31 = kv[(row * 32u) + i_17];
    return _e31;
}

uint value_word(
    bool made_here_1,
    uint row_1,
    uint i_18,
    constant Params& params,
    device type_11 const& kv,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (made_here_1) {
        uint _e4 = fresh_word(1u, i_18);
        return _e4;
    }
    uint _e7 = params.kv_values;
    uint _e12 = word_at((_e7 + (row_1 * 128u)) + i_18, kv, _buffer_sizes);
    return _e12;
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
, threadgroup type_15& scores
, threadgroup type_15& weights
, threadgroup type_16& units
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    if (local == 0u) {
        q_1 = {};
        scores = {};
        weights = {};
        units = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint begin = 0u;
    bool local_1 = {};
    bool local_2 = {};
    type_7 lanes = {};
    uint i = 0u;
    float score = 0.0;
    uint d = 0u;
    uint i_1 = {};
    uint d_1 = 0u;
    uint i_2 = {};
    float unit = {};
    uint d_2 = 0u;
    uint i_3 = {};
    uint j = {};
    bool local_3 = {};
    float top = {};
    uint i_4 = {};
    float weight = 0.0;
    float sum = 0.0;
    uint i_5 = 0u;
    uint item = {};
    float a = {};
    float b = {};
    uint start = {};
    type_19 w = {};
    uint i_6 = {};
    uint i_7 = {};
    metal::float2 x = {};
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
    take_queries(column_1, block_1, last_2, head_1, group.x, local, params, query, q_1, _buffer_sizes);
    uint key = naga_mod(local, 64u);
    uint mine = naga_div(local, 64u);
    uint position_2 = (block_1 * 64u) + key;
    uint _e61 = begin;
    if (position_2 >= _e61) {
        local_2 = position_2 <= last_2;
    } else {
        local_2 = false;
    }
    bool visible = local_2;
    bool _e68 = is_fresh(position_2, last_2);
    uint _e71 = params.slots;
    uint _e75 = slot_of(block_1 * 64u, params);
    uint rows = (kv_head * _e71) + _e75;
    uint2 loop_bound_8 = uint2(4294967295u);
    bool loop_init_8 = true;
    while(true) {
        if (metal::all(loop_bound_8 == uint2(0u))) { break; }
        loop_bound_8 -= uint2(loop_bound_8.y == 0u, 1u);
        if (!loop_init_8) {
            uint _e87 = i;
            i = _e87 + 1u;
        }
        loop_init_8 = false;
        uint _e80 = i;
        if (_e80 < 8u) {
        } else {
            break;
        }
        {
            uint _e83 = i;
            lanes.inner[_e83] = metal::float4 {};
        }
    }
    uint row_2 = rows + key;
    uint query_start = mine * 64u;
    if (visible) {
        if (false) {
            uint2 loop_bound_9 = uint2(4294967295u);
            bool loop_init_9 = true;
            while(true) {
                if (metal::all(loop_bound_9 == uint2(0u))) { break; }
                loop_bound_9 -= uint2(loop_bound_9.y == 0u, 1u);
                if (!loop_init_9) {
                    uint _e131 = d;
                    d = _e131 + 1u;
                }
                loop_init_9 = false;
                uint _e97 = d;
                if (_e97 < 8u) {
                } else {
                    break;
                }
                {
                    i_1 = 0u;
                    uint2 loop_bound_10 = uint2(4294967295u);
                    bool loop_init_10 = true;
                    while(true) {
                        if (metal::all(loop_bound_10 == uint2(0u))) { break; }
                        loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
                        if (!loop_init_10) {
                            uint _e128 = i_1;
                            i_1 = _e128 + 1u;
                        }
                        loop_init_10 = false;
                        uint _e102 = i_1;
                        if (_e102 < 8u) {
                        } else {
                            break;
                        }
                        {
                            uint _e105 = i_1;
                            uint _e108 = d;
                            uint _e112 = i_1;
                            metal::float4 _e115 = q_1.inner[(query_start + (_e108 * 8u)) + _e112];
                            uint _e116 = d;
                            uint _e119 = i_1;
                            metal::uint4 _e121 = key4_(_e68, row_2, (_e116 * 8u) + _e119, kv, _buffer_sizes);
                            metal::float4 _e122 = float4_(_e121);
                            uint _e123 = i_1;
                            metal::float4 _e125 = lanes.inner[_e123];
                            metal::float4 _e126 = fused4_(_e115, _e122, _e125);
                            lanes.inner[_e105] = _e126;
                        }
                    }
                }
            }
        } else {
            if (true) {
                uint2 loop_bound_11 = uint2(4294967295u);
                bool loop_init_11 = true;
                while(true) {
                    if (metal::all(loop_bound_11 == uint2(0u))) { break; }
                    loop_bound_11 -= uint2(loop_bound_11.y == 0u, 1u);
                    if (!loop_init_11) {
                        uint _e204 = d_1;
                        d_1 = _e204 + 1u;
                    }
                    loop_init_11 = false;
                    uint _e136 = d_1;
                    if (_e136 < 8u) {
                    } else {
                        break;
                    }
                    {
                        i_2 = 0u;
                        uint2 loop_bound_12 = uint2(4294967295u);
                        bool loop_init_12 = true;
                        while(true) {
                            if (metal::all(loop_bound_12 == uint2(0u))) { break; }
                            loop_bound_12 -= uint2(loop_bound_12.y == 0u, 1u);
                            if (!loop_init_12) {
                                uint _e201 = i_2;
                                i_2 = _e201 + 1u;
                            }
                            loop_init_12 = false;
                            uint _e141 = i_2;
                            if (_e141 < 4u) {
                            } else {
                                break;
                            }
                            {
                                uint _e144 = d_1;
                                uint _e147 = i_2;
                                metal::uint4 _e149 = key4_(_e68, row_2, (_e144 * 4u) + _e147, kv, _buffer_sizes);
                                uint _e150 = d_1;
                                uint _e155 = i_2;
                                uint at = (query_start + (_e150 * 8u)) + (2u * _e155);
                                uint _e159 = i_2;
                                metal::float4 _e164 = q_1.inner[at];
                                metal::float2 _e166 = halves(_e149.x);
                                metal::float2 _e168 = halves(_e149.y);
                                uint _e171 = i_2;
                                metal::float4 _e174 = lanes.inner[2u * _e171];
                                metal::float4 _e175 = fused4_(_e164, metal::float4(_e166, _e168), _e174);
                                lanes.inner[2u * _e159] = _e175;
                                uint _e177 = i_2;
                                metal::float4 _e186 = q_1.inner[at + 1u];
                                metal::float2 _e188 = halves(_e149.z);
                                metal::float2 _e190 = halves(_e149.w);
                                uint _e193 = i_2;
                                metal::float4 _e198 = lanes.inner[(2u * _e193) + 1u];
                                metal::float4 _e199 = fused4_(_e186, metal::float4(_e188, _e190), _e198);
                                lanes.inner[(2u * _e177) + 1u] = _e199;
                            }
                        }
                    }
                }
            } else {
                uint _e208 = params.kv_key_scales;
                uint _e210 = word_at(_e208 + row_2, kv, _buffer_sizes);
                unit = as_type<float>(_e210);
                if (_e68) {
                    uint _e215 = fresh_word(0u, 64u);
                    unit = as_type<float>(_e215);
                }
                uint2 loop_bound_13 = uint2(4294967295u);
                bool loop_init_13 = true;
                while(true) {
                    if (metal::all(loop_bound_13 == uint2(0u))) { break; }
                    loop_bound_13 -= uint2(loop_bound_13.y == 0u, 1u);
                    if (!loop_init_13) {
                        uint _e279 = d_2;
                        d_2 = _e279 + 1u;
                    }
                    loop_init_13 = false;
                    uint _e219 = d_2;
                    if (_e219 < 8u) {
                    } else {
                        break;
                    }
                    {
                        i_3 = 0u;
                        uint2 loop_bound_14 = uint2(4294967295u);
                        bool loop_init_14 = true;
                        while(true) {
                            if (metal::all(loop_bound_14 == uint2(0u))) { break; }
                            loop_bound_14 -= uint2(loop_bound_14.y == 0u, 1u);
                            if (!loop_init_14) {
                                uint _e276 = i_3;
                                i_3 = _e276 + 1u;
                            }
                            loop_init_14 = false;
                            uint _e224 = i_3;
                            if (_e224 < 2u) {
                            } else {
                                break;
                            }
                            {
                                uint _e227 = d_2;
                                uint _e230 = i_3;
                                metal::uint4 _e232 = key4_(_e68, row_2, (_e227 * 2u) + _e230, kv, _buffer_sizes);
                                j = 0u;
                                uint2 loop_bound_15 = uint2(4294967295u);
                                bool loop_init_15 = true;
                                while(true) {
                                    if (metal::all(loop_bound_15 == uint2(0u))) { break; }
                                    loop_bound_15 -= uint2(loop_bound_15.y == 0u, 1u);
                                    if (!loop_init_15) {
                                        uint _e273 = j;
                                        j = _e273 + 1u;
                                    }
                                    loop_init_15 = false;
                                    uint _e235 = j;
                                    if (_e235 < 4u) {
                                    } else {
                                        break;
                                    }
                                    {
                                        uint _e238 = j;
                                        metal::int4 _e240 = codes4_(_e232[_e238]);
                                        float _e242 = unit;
                                        metal::float4 _e244 = keep4_(static_cast<metal::float4>(_e240) * _e242, params);
                                        uint _e246 = i_3;
                                        uint _e248 = j;
                                        uint _e252 = d_2;
                                        uint _e257 = i_3;
                                        uint _e260 = j;
                                        metal::float4 _e263 = q_1.inner[((query_start + (_e252 * 8u)) + (4u * _e257)) + _e260];
                                        uint _e265 = i_3;
                                        uint _e267 = j;
                                        metal::float4 _e270 = lanes.inner[(4u * _e265) + _e267];
                                        metal::float4 _e271 = fused4_(_e263, _e244, _e270);
                                        lanes.inner[(4u * _e246) + _e248] = _e271;
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        type_7 _e281 = lanes;
        float _e282 = tree(_e281, params);
        score = _e282;
    }
    float _e285 = score;
    scores.inner[local] = _e285;
    if (false) {
        local_3 = mine == 0u;
    } else {
        local_3 = false;
    }
    bool _e292 = local_3;
    if (_e292) {
        uint _e297 = params.kv_value_scales;
        uint _e299 = word_at(_e297 + row_2, kv, _buffer_sizes);
        units.inner[key] = as_type<float>(_e299);
        if (_e68) {
            uint _e305 = fresh_word(1u, 64u);
            units.inner[key] = as_type<float>(_e305);
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e307 = begin;
    uint begin_at = metal::max(_e307, block_1 * 64u) - (block_1 * 64u);
    uint to = metal::min(last_2 - (block_1 * 64u), 63u);
    float _e324 = scores.inner[(mine * 64u) + begin_at];
    top = _e324;
    i_4 = begin_at + 1u;
    uint2 loop_bound_16 = uint2(4294967295u);
    bool loop_init_16 = true;
    while(true) {
        if (metal::all(loop_bound_16 == uint2(0u))) { break; }
        loop_bound_16 -= uint2(loop_bound_16.y == 0u, 1u);
        if (!loop_init_16) {
            uint _e341 = i_4;
            i_4 = _e341 + 1u;
        }
        loop_init_16 = false;
        uint _e329 = i_4;
        if (_e329 <= to) {
        } else {
            break;
        }
        {
            float _e331 = top;
            uint _e335 = i_4;
            float _e338 = scores.inner[(mine * 64u) + _e335];
            top = metal::max(_e331, _e338);
        }
    }
    if (visible) {
        float _e345 = score;
        float _e346 = top;
        float _e348 = keep(_e345 - _e346, params);
        float _e349 = exponential(_e348, params);
        weight = _e349;
    }
    float _e352 = weight;
    weights.inner[local] = _e352;
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint _e356 = params.partials;
    uint slot = (group.z * _e356) + group.x;
    if (key == 0u) {
        uint2 loop_bound_17 = uint2(4294967295u);
        bool loop_init_17 = true;
        while(true) {
            if (metal::all(loop_bound_17 == uint2(0u))) { break; }
            loop_bound_17 -= uint2(loop_bound_17.y == 0u, 1u);
            if (!loop_init_17) {
                uint _e380 = i_5;
                i_5 = _e380 + 1u;
            }
            loop_init_17 = false;
            uint _e366 = i_5;
            if (_e366 < 64u) {
            } else {
                break;
            }
            {
                float _e369 = sum;
                uint _e373 = i_5;
                float _e376 = weights.inner[(mine * 64u) + _e373];
                float _e378 = added(_e369 + _e376, params);
                sum = _e378;
            }
        }
        uint _e385 = params.heads;
        float _e390 = top;
        float _e391 = sum;
        tops[((slot * _e385) + head_1) + mine] = metal::float2(_e390, _e391);
    }
    item = local;
    uint2 loop_bound_18 = uint2(4294967295u);
    bool loop_init_18 = true;
    while(true) {
        if (metal::all(loop_bound_18 == uint2(0u))) { break; }
        loop_bound_18 -= uint2(loop_bound_18.y == 0u, 1u);
        if (!loop_init_18) {
            uint _e548 = item;
            item = _e548 + THREADS;
        }
        loop_init_18 = false;
        uint _e394 = item;
        if (_e394 < 512u) {
        } else {
            break;
        }
        {
            uint _e397 = item;
            uint pair = naga_mod(_e397, 128u);
            uint _e400 = item;
            uint which = naga_div(_e400, 128u);
            a = 0.0;
            b = 0.0;
            start = 0u;
            uint2 loop_bound_19 = uint2(4294967295u);
            bool loop_init_19 = true;
            while(true) {
                if (metal::all(loop_bound_19 == uint2(0u))) { break; }
                loop_bound_19 -= uint2(loop_bound_19.y == 0u, 1u);
                if (!loop_init_19) {
                    uint _e531 = start;
                    start = _e531 + 8u;
                }
                loop_init_19 = false;
                uint _e409 = start;
                if (_e409 < 64u) {
                } else {
                    break;
                }
                {
                    w = type_19 {};
                    i_6 = 0u;
                    uint2 loop_bound_20 = uint2(4294967295u);
                    bool loop_init_20 = true;
                    while(true) {
                        if (metal::all(loop_bound_20 == uint2(0u))) { break; }
                        loop_bound_20 -= uint2(loop_bound_20.y == 0u, 1u);
                        if (!loop_init_20) {
                            uint _e454 = i_6;
                            i_6 = _e454 + 1u;
                        }
                        loop_init_20 = false;
                        uint _e416 = i_6;
                        if (_e416 < 8u) {
                        } else {
                            break;
                        }
                        {
                            uint _e419 = start;
                            uint _e421 = i_6;
                            uint value = (rows + _e419) + _e421;
                            uint _e425 = start;
                            uint _e427 = i_6;
                            bool _e429 = is_fresh(((block_1 * 64u) + _e425) + _e427, last_2);
                            if (false) {
                                uint _e431 = i_6;
                                uint _e435 = value_word(_e429, value, 2u * pair, params, kv, _buffer_sizes);
                                uint _e440 = value_word(_e429, value, (2u * pair) + 1u, params, kv, _buffer_sizes);
                                w.inner[_e431] = metal::uint2(_e435, _e440);
                            } else {
                                if (true) {
                                    uint _e443 = i_6;
                                    uint _e446 = value_word(_e429, value, pair, params, kv, _buffer_sizes);
                                    w.inner[_e443].x = _e446;
                                } else {
                                    uint _e447 = i_6;
                                    uint _e452 = value_word(_e429, value, naga_div(pair, 2u), params, kv, _buffer_sizes);
                                    w.inner[_e447].x = _e452;
                                }
                            }
                        }
                    }
                    i_7 = 0u;
                    uint2 loop_bound_21 = uint2(4294967295u);
                    bool loop_init_21 = true;
                    while(true) {
                        if (metal::all(loop_bound_21 == uint2(0u))) { break; }
                        loop_bound_21 -= uint2(loop_bound_21.y == 0u, 1u);
                        if (!loop_init_21) {
                            uint _e529 = i_7;
                            i_7 = _e529 + 1u;
                        }
                        loop_init_21 = false;
                        uint _e458 = i_7;
                        if (_e458 < 8u) {
                        } else {
                            break;
                        }
                        {
                            x = metal::float2 {};
                            if (false) {
                                uint _e464 = i_7;
                                metal::uint2 _e466 = w.inner[_e464];
                                x = as_type<metal::float2>(_e466);
                            } else {
                                if (true) {
                                    uint _e469 = i_7;
                                    uint _e472 = w.inner[_e469].x;
                                    metal::float2 _e473 = halves(_e472);
                                    x = _e473;
                                } else {
                                    uint _e474 = i_7;
                                    uint _e477 = w.inner[_e474].x;
                                    uint _e478 = i_7;
                                    uint _e481 = w.inner[_e478].x;
                                    metal::int4 _e489 = codes4_((naga_mod(pair, 2u) == 1u) ? (_e481 >> 16u) : _e477);
                                    uint _e493 = start;
                                    uint _e494 = i_7;
                                    float _e497 = units.inner[_e493 + _e494];
                                    float _e499 = keep(static_cast<float>(_e489.x) * _e497, params);
                                    uint _e503 = start;
                                    uint _e504 = i_7;
                                    float _e507 = units.inner[_e503 + _e504];
                                    float _e509 = keep(static_cast<float>(_e489.y) * _e507, params);
                                    x = metal::float2(_e499, _e509);
                                }
                            }
                            uint _e514 = start;
                            uint _e516 = i_7;
                            float p_1 = weights.inner[((which * 64u) + _e514) + _e516];
                            float _e521 = x.x;
                            float _e522 = a;
                            float _e523 = fused(p_1, _e521, _e522);
                            a = _e523;
                            float _e525 = x.y;
                            float _e526 = b;
                            float _e527 = fused(p_1, _e525, _e526);
                            b = _e527;
                        }
                    }
                }
            }
            uint _e537 = params.heads;
            float _e545 = a;
            float _e546 = b;
            partial[((((slot * _e537) + head_1) + which) * 128u) + pair] = metal::float2(_e545, _e546);
        }
    }
    return;
}
