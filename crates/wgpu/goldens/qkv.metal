// language: metal2.4
#include <metal_stdlib>
#include <simd/simd.h>

using metal::uint;

struct _mslBufferSizes {
    uint size5;
    uint size6;
    uint size7;
    uint size9;
    uint size10;
    uint size11;
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
    metal::uint4 inner[96];
};
struct type_16 {
    metal::uint4 inner[1];
};
typedef float type_17[1];
typedef uint type_18[1];
constant uint BITS = 4u;
constant uint SLICES = 64u;
constant uint COLUMNS = 1u;
constant uint LOADS = 4u;
constant uint EARLY = 1u;
constant uint INPUTS = 1536u;
constant bool NATIVE_HALF = true;
constant bool REASSOCIATES = true;
constant type_8 EXP_COEFFICIENTS = type_8 {{984945178u, 1007230193u, 1026206841u, 1042983497u, 1056964606u, 1065353216u, 1065353216u}};
constant uint THREADS = 256u;
constant uint ONES = 16843009u;
constant uint MATRICES = 1u;
constant uint WHOLE = 96u;
constant uint SHARE = 1u;

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
    uint y_3 = as_type<uint>(b_2);
    uint ex = (x_10 >> 23u) & 255u;
    uint ey = (y_3 >> 23u) & 255u;
    uint mx = (x_10 & 8388607u) | 8388608u;
    uint my = (y_3 & 8388607u) | 8388608u;
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
    return as_type<float>(((x_10 ^ y_3) & 2147483648u) | ((static_cast<uint>(e_1) << 23u) + (_e143 - 8388608u)));
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
    bool up = local_11;
    float _e28 = power_of_two(static_cast<int>(shift));
    return static_cast<float>(m + (up ? 1u : 0u)) * _e28;
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
    float y_1 = {};
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
        y_1 = static_cast<float>((h_1 * 256u) + _e28);
    } else {
        uint shift_3 = 16u - metal::clz(h_1);
        if (shift_3 <= 8u) {
            uint _e39 = low;
            uint _e42 = low;
            float _e48 = round_bits((h_1 << (8u - shift_3)) | (_e39 >> shift_3), _e42 & ((1u << shift_3) - 1u), shift_3);
            y_1 = _e48;
        } else {
            uint lost = shift_3 - 8u;
            uint _e59 = low;
            float _e61 = round_bits(h_1 >> lost, ((h_1 & ((1u << lost) - 1u)) << 8u) | _e59, shift_3);
            y_1 = _e61;
        }
    }
    float _e62 = y_1;
    float _e63 = y_1;
    return negative ? -(_e63) : _e62;
}

int naga_f2i32(float value) {
    return static_cast<int>(metal::clamp(value, -2147483600.0, 2147483500.0));
}

int quantise(
    float x_5,
    float scale_1
) {
    float n = {};
    if ((as_type<uint>(x_5) & 2147483647u) > 2139095040u) {
        return 0;
    }
    float near = x_5 / scale_1;
    if (near >= 130.0) {
        return 127;
    }
    if (near <= -130.0) {
        return -128;
    }
    n = metal::rint(near);
    float _e17 = n;
    if (metal::abs(metal::abs(near - _e17) - 0.5) < 0.001) {
        float _e25 = divide(x_5, scale_1);
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
    float scale_2
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
            int _e13 = quantise(x_6[_e11], scale_2);
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
    metal::float4 y_2 = metal::float4 {};
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
            y_2[_e9] = _e13;
        }
    }
    metal::float4 _e17 = y_2;
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
    float n_3 = metal::rint(_e8);
    float _e16 = fused(n_3, -(as_type<float>(1060205056u)), x_7);
    float _e17 = fused(n_3, -(as_type<float>(901758606u)), _e16);
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
    float _e37 = power_of_two(naga_f2i32(n_3));
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
    device type_14 const& q_1,
    device type_14 const& k,
    device type_14 const& v,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (matrix_1 == 0u) {
        metal::uint4 _e6 = q_1[index_1];
        return _e6;
    }
    if (matrix_1 == 1u) {
        metal::uint4 _e11 = k[index_1];
        return _e11;
    }
    metal::uint4 _e14 = v[index_1];
    return _e14;
}

void hold(
    uint matrix_2,
    uint place_1,
    uint bits_3,
    uint start,
    uint g,
    constant Params& params,
    thread type_11& held,
    device type_14 const& q_1,
    device type_14 const& k,
    device type_14 const& v,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint step = naga_div(32u, bits_3);
    uint _e7 = groups_of(bits_3, params);
    uint end = _e7 - 1u;
    uint at = place_1 * LOADS;
    metal::uint4 _e17 = weight(matrix_2, start + (metal::min(g, end) * step), q_1, k, v, _buffer_sizes);
    held.inner[at] = _e17;
    if (true) {
        metal::uint4 _e28 = weight(matrix_2, start + (metal::min(g + SLICES, end) * step), q_1, k, v, _buffer_sizes);
        held.inner[at + 1u] = _e28;
    }
    if (true) {
        metal::uint4 _e39 = weight(matrix_2, start + (metal::min(g + 128u, end) * step), q_1, k, v, _buffer_sizes);
        held.inner[at + 2u] = _e39;
    }
    if (true) {
        metal::uint4 _e50 = weight(matrix_2, start + (metal::min(g + 192u, end) * step), q_1, k, v, _buffer_sizes);
        held.inner[at + 3u] = _e50;
    }
    if (false) {
        metal::uint4 _e61 = weight(matrix_2, start + (metal::min(g + 256u, end) * step), q_1, k, v, _buffer_sizes);
        held.inner[at + 4u] = _e61;
    }
    if (false) {
        metal::uint4 _e72 = weight(matrix_2, start + (metal::min(g + 320u, end) * step), q_1, k, v, _buffer_sizes);
        held.inner[at + 5u] = _e72;
    }
    if (false) {
        metal::uint4 _e83 = weight(matrix_2, start + (metal::min(g + 384u, end) * step), q_1, k, v, _buffer_sizes);
        held.inner[at + 6u] = _e83;
    }
    if (false) {
        metal::uint4 _e94 = weight(matrix_2, start + (metal::min(g + 448u, end) * step), q_1, k, v, _buffer_sizes);
        held.inner[at + 7u] = _e94;
        return;
    } else {
        return;
    }
}

void hold_first(
    uint matrix_3,
    uint place_2,
    uint bits_4,
    uint block_1,
    uint local_16,
    constant Params& params,
    thread type_11& held,
    device type_14 const& q_1,
    device type_14 const& k,
    device type_14 const& v,
    constant _mslBufferSizes& _buffer_sizes
) {
    if (true) {
        uint _e6 = start_of(bits_4, block_1, local_16, params);
        hold(matrix_3, place_2, bits_4, _e6, naga_div(local_16, 4u), params, held, q_1, k, v, _buffer_sizes);
        return;
    } else {
        return;
    }
}

uint input_at(
    uint column,
    uint index_2,
    threadgroup type_15& taken
) {
    uint _e9 = taken.inner[naga_div(index_2, 4u)][naga_mod(index_2, 4u)];
    return _e9;
}

void add_products(
    metal::uint4 w_2,
    uint bits_5,
    uint g_1,
    uint first,
    constant Params& params,
    thread type_12& sums,
    thread type_13& ones,
    threadgroup type_15& taken
) {
    uint p_1 = 0u;
    uint m_1 = {};
    uint _e4 = groups_of(bits_5, params);
    if (g_1 >= _e4) {
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
                    uint _e24 = input_at(first + _e19, (g_1 * planes) + _e22, taken);
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
    device type_14 const& q_1,
    device type_14 const& k,
    device type_14 const& v,
    threadgroup type_15& taken,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_12 of_columns = {};
    type_13 of_ones = {};
    uint m_2 = 0u;
    uint g_2 = {};
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
    g_2 = slice;
    uint2 loop_bound_10 = uint2(4294967295u);
    bool loop_init_10 = true;
    while(true) {
        if (metal::all(loop_bound_10 == uint2(0u))) { break; }
        loop_bound_10 -= uint2(loop_bound_10.y == 0u, 1u);
        if (!loop_init_10) {
            uint _e71 = g_2;
            g_2 = _e71 + SLICES;
        }
        loop_init_10 = false;
        uint _e28 = g_2;
        if (_e28 < _e10) {
        } else {
            break;
        }
        {
            uint _e30 = g_2;
            metal::uint4 _e33 = weight(matrix_4, start_1 + (_e30 * step_1), q_1, k, v, _buffer_sizes);
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
                            uint _e47 = g_2;
                            uint _e49 = p_2;
                            uint _e51 = input_at(first_1 + _e45, (_e47 * planes_1) + _e49, taken);
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
                    uint at_1 = (naga_div(_e14, 4u * _e16) * THREADS) + naga_mod(_e21, 4u * _e23);
                    metal::int4 _e29 = parts.inner[at_1];
                    uint _e32 = width;
                    metal::int4 _e36 = parts.inner[at_1 + (4u * _e32)];
                    uint _e39 = width;
                    metal::int4 _e43 = parts.inner[at_1 + (8u * _e39)];
                    uint _e47 = width;
                    metal::int4 _e51 = parts.inner[at_1 + (12u * _e47)];
                    parts.inner[at_1] = as_type<metal::int4>(as_type<metal::uint4>(_e29) + as_type<metal::uint4>(as_type<metal::int4>(as_type<metal::uint4>(as_type<metal::int4>(as_type<metal::uint4>(_e36) + as_type<metal::uint4>(_e43))) + as_type<metal::uint4>(_e51))));
                }
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

void sum_rows(
    uint matrix_5,
    uint place_3,
    uint bits_7,
    uint block_2,
    uint first_2,
    uint local_19,
    constant Params& params,
    threadgroup type_10& parts,
    thread type_11& held,
    thread type_12& sums,
    thread type_13& ones,
    device type_14 const& q_1,
    device type_14 const& k,
    device type_14 const& v,
    threadgroup type_15& taken,
    constant _mslBufferSizes& _buffer_sizes
) {
    uint m_5 = 0u;
    uint g_3 = {};
    uint m_6 = 0u;
    metal::int4 sum_1 = {};
    uint slice_1 = naga_div(local_19, 4u);
    uint _e8 = groups_of(bits_7, params);
    uint _e9 = start_of(bits_7, block_2, local_19, params);
    if (false) {
        sum_in_turn(matrix_5, bits_7, _e9, slice_1, first_2, local_19, params, parts, q_1, k, v, taken, _buffer_sizes);
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
    uint at_2 = place_3 * LOADS;
    g_3 = slice_1;
    uint2 loop_bound_17 = uint2(4294967295u);
    bool loop_init_17 = true;
    while(true) {
        if (metal::all(loop_bound_17 == uint2(0u))) { break; }
        loop_bound_17 -= uint2(loop_bound_17.y == 0u, 1u);
        if (!loop_init_17) {
            uint _e102 = g_3;
            g_3 = _e102 + 256u;
        }
        loop_init_17 = false;
        uint _e30 = g_3;
        if (_e30 < _e8) {
        } else {
            break;
        }
        {
            uint _e32 = g_3;
            if (_e32 != slice_1) {
                uint _e34 = g_3;
                hold(matrix_5, place_3, bits_7, _e9, _e34, params, held, q_1, k, v, _buffer_sizes);
            }
            metal::uint4 _e37 = held.inner[at_2];
            uint _e38 = g_3;
            add_products(_e37, bits_7, _e38, first_2, params, sums, ones, taken);
            if (true) {
                metal::uint4 _e44 = held.inner[at_2 + 1u];
                uint _e45 = g_3;
                add_products(_e44, bits_7, _e45 + SLICES, first_2, params, sums, ones, taken);
            }
            if (true) {
                metal::uint4 _e53 = held.inner[at_2 + 2u];
                uint _e54 = g_3;
                add_products(_e53, bits_7, _e54 + 128u, first_2, params, sums, ones, taken);
            }
            if (true) {
                metal::uint4 _e62 = held.inner[at_2 + 3u];
                uint _e63 = g_3;
                add_products(_e62, bits_7, _e63 + 192u, first_2, params, sums, ones, taken);
            }
            if (false) {
                metal::uint4 _e71 = held.inner[at_2 + 4u];
                uint _e72 = g_3;
                add_products(_e71, bits_7, _e72 + 256u, first_2, params, sums, ones, taken);
            }
            if (false) {
                metal::uint4 _e80 = held.inner[at_2 + 5u];
                uint _e81 = g_3;
                add_products(_e80, bits_7, _e81 + 320u, first_2, params, sums, ones, taken);
            }
            if (false) {
                metal::uint4 _e89 = held.inner[at_2 + 6u];
                uint _e90 = g_3;
                add_products(_e89, bits_7, _e90 + 384u, first_2, params, sums, ones, taken);
            }
            if (false) {
                metal::uint4 _e98 = held.inner[at_2 + 7u];
                uint _e99 = g_3;
                add_products(_e98, bits_7, _e99 + 448u, first_2, params, sums, ones, taken);
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

void take_input(
    bool writes,
    uint local_20,
    threadgroup type_15& taken,
    device type_14 const& input,
    constant _mslBufferSizes& _buffer_sizes
) {
    type_16 mine = {};
    uint n_1 = 0u;
    uint n_2 = 0u;
    uint2 loop_bound_19 = uint2(4294967295u);
    bool loop_init_19 = true;
    while(true) {
        if (metal::all(loop_bound_19 == uint2(0u))) { break; }
        loop_bound_19 -= uint2(loop_bound_19.y == 0u, 1u);
        if (!loop_init_19) {
            uint _e20 = n_1;
            n_1 = _e20 + 1u;
        }
        loop_init_19 = false;
        uint _e5 = n_1;
        if (_e5 < SHARE) {
        } else {
            break;
        }
        {
            uint _e8 = n_1;
            uint _e11 = n_1;
            metal::uint4 _e18 = input[metal::min(local_20 + (_e11 * THREADS), 95u)];
            mine.inner[_e8] = _e18;
        }
    }
    uint2 loop_bound_20 = uint2(4294967295u);
    bool loop_init_20 = true;
    while(true) {
        if (metal::all(loop_bound_20 == uint2(0u))) { break; }
        loop_bound_20 -= uint2(loop_bound_20.y == 0u, 1u);
        if (!loop_init_20) {
            uint _e43 = n_2;
            n_2 = _e43 + 1u;
        }
        loop_init_20 = false;
        uint _e24 = n_2;
        if (_e24 < SHARE) {
        } else {
            break;
        }
        {
            uint _e27 = n_2;
            if ((local_20 + (_e27 * THREADS)) < WHOLE) {
                uint _e34 = n_2;
                uint _e39 = n_2;
                metal::uint4 _e41 = mine.inner[_e39];
                taken.inner[local_20 + (_e34 * THREADS)] = _e41;
            }
        }
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    return;
}

metal::float4 factors_of(
    uint row,
    device type_17 const& multipliers,
    constant _mslBufferSizes& _buffer_sizes
) {
    float _e3 = multipliers[row];
    float _e8 = multipliers[row + 1u];
    float _e13 = multipliers[row + 2u];
    float _e18 = multipliers[row + 3u];
    return metal::float4(_e3, _e8, _e13, _e18);
}

struct main_Input {
};
[[max_total_threads_per_threadgroup(256)]] kernel void main_(
  metal::uint3 group [[threadgroup_position_in_grid]]
, uint local [[thread_index_in_threadgroup]]
, constant Params& params [[user(fake0)]]
, threadgroup type_10& parts
, device type_14 const& q_1 [[user(fake0)]]
, device type_14 const& k [[user(fake0)]]
, device type_14 const& v [[user(fake0)]]
, threadgroup type_15& taken
, device type_14 const& input [[user(fake0)]]
, device type_17 const& multipliers [[user(fake0)]]
, device type_18& output [[user(fake0)]]
, constant _mslBufferSizes& _buffer_sizes [[user(fake0)]]
) {
    type_11 held = {};
    type_12 sums = {};
    type_13 ones = {};
    if (local == 0u) {
        parts = {};
        taken = {};
    }
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    uint matrix_ = 0u;
    uint before = 0u;
    uint place = 0u;
    float scale = {};
    metal::float4 factor = {};
    bool local_1 = {};
    uint i = {};
    metal::float4 y = {};
    uint j = {};
    uint first_3 = group.y * COLUMNS;
    uint start_2 = group.x * 16u;
    float _e16 = params.output_scale;
    scale = _e16;
    uint _e20 = params.rows;
    if (start_2 >= _e20) {
        matrix_ = 1u;
        uint _e25 = params.rows;
        before = _e25;
        uint _e28 = params.other_stride;
        place = _e28;
        float _e31 = params.up_scale;
        scale = _e31;
    }
    uint _e34 = params.rows;
    uint _e37 = params.count;
    if (start_2 >= (_e34 + _e37)) {
        matrix_ = 2u;
        uint _e41 = before;
        uint _e44 = params.count;
        before = _e41 + _e44;
        uint _e46 = place;
        uint _e49 = params.other_offset;
        place = _e46 + _e49;
        float _e53 = params.next_scale;
        scale = _e53;
    }
    uint _e54 = before;
    uint block_3 = naga_div(start_2 - _e54, 16u);
    uint _e58 = matrix_;
    hold_first(_e58, 0u, BITS, block_3, local, params, held, q_1, k, v, _buffer_sizes);
    if (true) {
        local_1 = local < 4u;
    } else {
        local_1 = false;
    }
    bool _e68 = local_1;
    if (_e68) {
        metal::float4 _e72 = factors_of(start_2 + (local * 4u), multipliers, _buffer_sizes);
        factor = _e72;
    }
    take_input(group.x == 0u, local, taken, input, _buffer_sizes);
    uint _e76 = matrix_;
    sum_rows(_e76, 0u, BITS, block_3, first_3, local, params, parts, held, sums, ones, q_1, k, v, taken, _buffer_sizes);
    i = local;
    uint2 loop_bound_21 = uint2(4294967295u);
    bool loop_init_21 = true;
    while(true) {
        if (metal::all(loop_bound_21 == uint2(0u))) { break; }
        loop_bound_21 -= uint2(loop_bound_21.y == 0u, 1u);
        if (!loop_init_21) {
            uint _e140 = i;
            i = _e140 + THREADS;
        }
        loop_init_21 = false;
        uint _e80 = i;
        if (_e80 < 4u) {
        } else {
            break;
        }
        {
            uint _e83 = i;
            uint m_10 = naga_div(_e83, 4u);
            uint _e89 = i;
            metal::int4 sum_2 = parts.inner[(m_10 * THREADS) + naga_mod(_e89, 4u)];
            uint _e95 = i;
            uint row_1 = start_2 + (naga_mod(_e95, 4u) * 4u);
            if (false) {
                metal::float4 _e102 = factors_of(row_1, multipliers, _buffer_sizes);
                factor = _e102;
            }
            y = metal::float4 {};
            j = 0u;
            uint2 loop_bound_22 = uint2(4294967295u);
            bool loop_init_22 = true;
            while(true) {
                if (metal::all(loop_bound_22 == uint2(0u))) { break; }
                loop_bound_22 -= uint2(loop_bound_22.y == 0u, 1u);
                if (!loop_init_22) {
                    uint _e121 = j;
                    j = _e121 + 1u;
                }
                loop_init_22 = false;
                uint _e107 = j;
                if (_e107 < 4u) {
                } else {
                    break;
                }
                {
                    uint _e110 = j;
                    uint _e112 = j;
                    float _e114 = int_to_float(sum_2[_e112]);
                    uint _e115 = j;
                    float _e117 = factor[_e115];
                    float _e119 = keep(_e114 * _e117, params);
                    y[_e110] = _e119;
                }
            }
            uint _e127 = params.out_stride;
            uint _e129 = place;
            uint _e131 = before;
            metal::float4 _e137 = y;
            float _e138 = scale;
            uint _e139 = quantise4_(_e137, _e138);
            output[(((first_3 + m_10) * _e127) + _e129) + naga_div(row_1 - _e131, 4u)] = _e139;
        }
    }
    return;
}
